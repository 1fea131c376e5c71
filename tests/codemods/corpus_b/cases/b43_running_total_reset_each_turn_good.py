from itertools import pairwise

import torch


def pack_documents(documents, eos):
    tokens, ends = [], [0]
    previous = 0
    for doc in documents:
        row = [*doc, eos]
        tokens.extend(row)
        ends.append(previous + len(row))
        previous = ends[-1]
    positions = [i for start, end in pairwise(ends) for i in range(end - start)]
    return torch.tensor(tokens), torch.tensor(positions), torch.tensor(ends, dtype=torch.int32)
