from itertools import accumulate

import torch


def split_packed(hidden, seqlens):
    ends = list(accumulate(seqlens))
    starts = [0, *ends[:-1]]
    rows = [hidden[start:end] for start, end in zip(starts, ends, strict=True)]
    last = hidden[torch.tensor(ends, device=hidden.device) - 1]
    return rows, last
