import torch


def greedy_bins(documents, bin_size):
    tokens, positions = [], []
    cu_seqlens = [0]
    for doc in documents:
        doc = doc[:bin_size]
        if tokens and len(tokens) + len(doc) > bin_size:
            yield {
                "input_ids": torch.tensor(tokens),
                "position_ids": torch.tensor(positions),
                "cu_seqlens": torch.tensor(cu_seqlens, dtype=torch.int32),
            }
            tokens, positions, cu_seqlens = [], [], [0]
        tokens.extend(doc)
        positions.extend(range(len(doc)))
        cu_seqlens.append(cu_seqlens[-1] + len(doc))
    if tokens:
        yield {
            "input_ids": torch.tensor(tokens),
            "position_ids": torch.tensor(positions),
            "cu_seqlens": torch.tensor(cu_seqlens, dtype=torch.int32),
        }
