"""Which rows can see each other, as one range for each row, computed on the device: no value is read by the host.

For kernels that must not wait for the device (CUDA): all shapes follow from the arguments' shapes.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from shapecheck._attention._call import Call

_FAR = 2**30  # beyond any row, and row + _FAR still fits int32


class Ranges(NamedTuple):
    """For each row of one side the packed rows `first[r] <= j < stop[r]` of the other side.

    Attributes:
        segment: `[T]` int64, -1 for rows of no segment.
        first: `[T]` in the boundaries' dtype.
        stop: `[T]`, likewise; not above `first` for a row that sees nothing.
    """

    segment: Tensor
    first: Tensor
    stop: Tensor

    @property
    def live(self) -> Tensor:
        """`[T]` bool: the row sees at least one row of the other side."""
        return self.first < self.stop


def window_of(call: Call) -> tuple[int, int]:
    """The call's window with `causal` in it: (rows before, rows behind), -1 for no limit. Safe to add to a row."""
    left, right = call.window
    return min(left, _FAR), 0 if call.causal else min(right, _FAR)


def segments(cu_seqlens: Tensor, rows: int) -> Tensor:
    """`[rows]` int64: the segment of each packed row, -1 for rows of no segment.

    Args:
        cu_seqlens: `[B+1]` int32 or int64, `B >= 1`; may repeat, and may end before the last row.
        rows: number of packed rows, also those behind the last boundary.
    """
    row = torch.arange(rows, dtype=cu_seqlens.dtype, device=cu_seqlens.device)
    segment = torch.searchsorted(cu_seqlens, row, right=True) - 1
    return torch.where(segment < cu_seqlens.shape[0] - 1, segment, -1)


def inside(cu_seqlens: Tensor, rows: int) -> Tensor:
    """`[rows]` bool: the packed row lies in a segment. Two comparisons where `segments` searches."""
    row = torch.arange(rows, dtype=cu_seqlens.dtype, device=cu_seqlens.device)
    return (row >= cu_seqlens[0]) & (row < cu_seqlens[-1])


def visible(cu_seqlens: Tensor, cu_seqlens_other: Tensor, rows: int, window: tuple[int, int]) -> Ranges:
    """The range that each packed row of one side sees on the other, segments aligned at their ends as in flash-attn.

    Which side is which makes no difference but for the window: keys see queries through `(right, left)`.

    Args:
        cu_seqlens: `[B+1]`, boundaries of the rows asked about.
        cu_seqlens_other: `[B+1]`, boundaries of the other side, same dtype and device.
        rows: number of packed rows asked about.
        window: (rows before, rows behind) its own position that a row sees; -1: no limit.
    """
    segment = segments(cu_seqlens, rows)
    index = segment.clamp(min=0)
    first, stop = cu_seqlens_other[index], cu_seqlens_other[index + 1]
    row = torch.arange(rows, dtype=cu_seqlens.dtype, device=cu_seqlens.device)
    position = row + stop - cu_seqlens[index + 1]
    before, behind = window
    stop = torch.where(segment >= 0, stop, first)
    if before >= 0:
        first = torch.maximum(first, position - before)
    if behind >= 0:
        stop = torch.minimum(stop, position + behind + 1)
    return Ranges(segment, first, stop)
