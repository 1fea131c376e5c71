from itertools import pairwise

import torch
import torch.nn.functional as F


def pooled_windows(x, seqlens, multiple, mixer):
    cu_seqlens = F.pad(seqlens.cumsum(0), (1, 0))
    edges = cu_seqlens.tolist()
    tail = -x.shape[0] % multiple
    if tail:
        x = F.pad(x, (0, 0, 0, tail))
        cu_seqlens = torch.cat([cu_seqlens, cu_seqlens[-1:] + tail])
    mixed = torch.cat([mixer(x[lo:hi]) for lo, hi in pairwise(edges)])
    return x + mixed, cu_seqlens
