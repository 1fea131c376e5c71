from dataclasses import dataclass
from itertools import pairwise

import torch


@dataclass
class PackedRow:
    tokens: torch.Tensor
    targets: torch.Tensor
    positions: torch.Tensor
    loss_weights: torch.Tensor


def iter_spans(row, cu_seqlens, group):
    limits = cu_seqlens[::group].tolist()
    if limits[-1] != int(cu_seqlens[-1]):
        limits.append(int(cu_seqlens[-1]))
    for start, stop in pairwise(limits):
        yield PackedRow(
            tokens=row.tokens[start:stop],
            targets=row.targets[start:stop],
            positions=row.positions[start:stop],
            loss_weights=row.loss_weights[start:stop],
        )
