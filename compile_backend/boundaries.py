"""Which keys each packed query row of one attention sees, from the boundaries that it got at run time."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Boundaries:
    """One call's segments, on the host.

    Attributes:
        cu_seqlens_q: boundaries of the query segments, in packed rows.
        cu_seqlens_k: likewise for keys.
        rows_q: query rows, those of no segment included.
        rows_k: key rows, likewise.
        ordered: whether the packed rows were picked from the tensors, rather than being their rows in order.
        first: `[cu_seqlens_q[-1]]` int64: the first packed key that each packed query sees.
        stop: `[cu_seqlens_q[-1]]` int64: the packed key behind the last that it sees; `first` where it sees none.
    """

    cu_seqlens_q: tuple[int, ...]
    cu_seqlens_k: tuple[int, ...]
    rows_q: int
    rows_k: int
    ordered: bool
    first: Tensor
    stop: Tensor

    @cached_property
    def segments(self) -> list[int]:
        """Indices of the segments that hold a query or a key; boundaries may repeat, as padding does."""
        return [
            i
            for i in range(len(self.cu_seqlens_q) - 1)
            if self.cu_seqlens_q[i] < self.cu_seqlens_q[i + 1] or self.cu_seqlens_k[i] < self.cu_seqlens_k[i + 1]
        ]

    @cached_property
    def longest(self) -> tuple[int, int]:
        """Rows of the longest query segment and of the longest key segment."""
        queries, keys = (
            max((cu[i + 1] - cu[i] for i in self.segments), default=0) for cu in (self.cu_seqlens_q, self.cu_seqlens_k)
        )
        return queries, keys

    @cached_property
    def pairs(self) -> int:
        """Pairs of a query and a key that it sees, in all segments."""
        return int((self.stop - self.first).sum())

    def matches(self, other: "Boundaries") -> bool:
        """Whether both calls had the same segments and the same visible keys."""
        return (
            (self.cu_seqlens_q, self.cu_seqlens_k, self.rows_q, self.rows_k, self.ordered)
            == (other.cu_seqlens_q, other.cu_seqlens_k, other.rows_q, other.rows_k, other.ordered)
            and torch.equal(self.first, other.first)
            and torch.equal(self.stop, other.stop)
        )


def read_boundaries(
    rows_q: int,
    rows_k: int,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    causal: bool,
    window: tuple[int, int],
    order_q: Tensor | None = None,
    order_k: Tensor | None = None,
) -> Boundaries:
    """The segments of one `shapecheck::varlen_attention`; waits for a device that holds the boundaries.

    Args:
        rows_q: rows of q.
        rows_k: rows of k.
        cu_seqlens_q: `[B+1]` int32 or int64, on any device.
        cu_seqlens_k: `[B+1]`, likewise.
        causal: as in the operator: aligned at the end of each segment, or on original rows where orders are given.
        window: `(left, right)` rows, -1 without limit.
        order_q: `[rows_q]` int64 or None.
        order_k: `[rows_k]`, given exactly where `order_q` is.
    """
    cu_q, cu_k = (cu.detach().to("cpu", torch.int64) for cu in (cu_seqlens_q, cu_seqlens_k))
    first, stop = _visible(cu_q, cu_k, 0 if causal else window[1], window[0], order_q, order_k)
    return Boundaries(
        tuple(cu_q.tolist()), tuple(cu_k.tolist()), rows_q, rows_k, order_q is not None, first=first, stop=stop
    )


def _visible(
    cu_q: Tensor, cu_k: Tensor, right: int, left: int, order_q: Tensor | None, order_k: Tensor | None
) -> tuple[Tensor, Tensor]:
    segment_q, place_q = _places(cu_q, order_q)
    segment_k, place_k = _places(cu_k, order_k)
    if order_q is None:  # aligned at the ends: the last query of a segment stands at its last key
        place_q = place_q + (cu_k.diff() - cu_q.diff())[segment_q]
    span = int(place_k.max()) + 2 if len(place_k) else 1
    # Inside a segment places increase, so that keys sorted by segment and place are the packed keys in order.
    keys = segment_k * span + place_k
    lowest = (place_q - left).clamp(0, span - 1) if left >= 0 else torch.zeros_like(place_q)
    highest = (place_q + right).clamp(-1, span - 1) if right >= 0 else torch.full_like(place_q, span - 1)
    first = torch.searchsorted(keys, segment_q * span + lowest)
    stop = torch.searchsorted(keys, segment_q * span + highest, right=True)
    return first, stop.maximum(first)


def _places(cu: Tensor, order: Tensor | None) -> tuple[Tensor, Tensor]:
    """The segment of each packed row, and its place: its row in the tensor with an order, else in its segment."""
    rows = torch.arange(int(cu[-1]))
    segment = torch.repeat_interleave(torch.arange(len(cu) - 1), cu.diff())
    return segment, rows - cu[segment] if order is None else order.detach().cpu()[: len(rows)]
