"""What Ascend's varlen operators must know on the host, made and checked once for all layers of a forward."""

import functools
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from shapecheck._errors import ContractError

# "varlen: at most 1K" entries of actual_seq_qlen, T and S "1 to 1M": documentation of npu_fusion_attention, torch_npu
# 2.13. It says elsewhere that B may be 2K; npu_fused_infer_attention_score_v2 takes 4096. The smallest serves all.
MAX_SEGMENTS = 1024
MAX_ROWS = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Consecutive segments that one call of an operator can take, none of them empty.

    Attributes:
        rows_q: their rows, counted from the plan's first packed row.
        rows_k: likewise for keys.
        ends_q: `[segments]` int64 on the host: the ends of the segments, counted from the first of `rows_q`.
        ends_k: likewise for keys.
        longest_q: rows of the longest query segment.
    """

    rows_q: slice
    rows_k: slice
    ends_q: Tensor
    ends_k: Tensor
    longest_q: int


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The calls that one attention takes.

    Attributes:
        span_q: first and last boundary of the queries; rows outside are in no segment.
        span_k: likewise for keys.
        pieces: without any where there are no rows.
    """

    span_q: tuple[int, int]
    span_k: tuple[int, int]
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class _Segment:
    number: int
    start_q: int
    end_q: int
    start_k: int
    end_k: int

    @property
    def rows_q(self) -> int:
        return self.end_q - self.start_q

    @property
    def rows_k(self) -> int:
        return self.end_k - self.start_k


@functools.lru_cache(maxsize=64)
def plan(
    bounds_q: tuple[int, ...], bounds_k: tuple[int, ...], rows_q: int, rows_k: int, ahead: int, same_rows: bool
) -> Plan:
    """Cut an attention into calls that the operators can take.

    Args:
        bounds_q: the values of `cu_seqlens_q`.
        bounds_k: the values of `cu_seqlens_k`, as many.
        rows_q: rows of q.
        rows_k: rows of k.
        ahead: how many keys ahead of its own position a query sees: 0 for causal, -1 for no limit.
        same_rows: a query's position is its row, not its place in the segment: then queries and keys must be the same.

    Raises ContractError, which names the segment, for boundaries that decrease or leave the tensor, and for what the
    operators do not take: segments empty on one side only, query rows that see no key, segments of over 2^20 rows.
    """
    _check_bounds("cu_seqlens_q", bounds_q, rows_q)
    _check_bounds("cu_seqlens_k", bounds_k, rows_k)
    if same_rows and bounds_q != bounds_k:
        raise _error(
            "cu_seqlens_k",
            "differs from cu_seqlens_q in a causal call with orders, where npu kernels compare places inside segments",
            expected=bounds_q,
            actual=bounds_k,
            hint="pass one tensor as both, and one as both orders",
        )
    ends = zip(pairwise(bounds_q), pairwise(bounds_k), strict=True)
    segments = [_Segment(number, *one, *other) for number, (one, other) in enumerate(ends)]
    segments = [one for one in segments if one.rows_q or one.rows_k]
    for segment in segments:
        _check_segment(segment, ahead)
    pieces = tuple(_piece(group, bounds_q[0], bounds_k[0]) for group in _groups(segments))
    return Plan((bounds_q[0], bounds_q[-1]), (bounds_k[0], bounds_k[-1]), pieces)


def _check_bounds(name: str, bounds: tuple[int, ...], rows: int) -> None:
    if not bounds:
        raise _error(name, "is empty", expected="at least one boundary", actual=0, hint="pass [0, ..., rows]")
    for place, (one, other) in enumerate(pairwise(bounds)):
        if other < one:
            raise _error(
                name,
                f"decreases: [{place}] is {one}, [{place + 1}] is {other}",
                expected="cumulative row counts",
                actual=other,
                hint="build it with torch.cumsum of the lengths, with a leading 0",
            )
    for place in (0, -1):
        if not 0 <= bounds[place] <= rows:
            raise _error(
                name,
                f"[{place}] is {bounds[place]}, but {name[-1]} has {rows} rows",
                expected=f"0 to {rows}",
                actual=bounds[place],
                hint=f"derive {name} from the rows of {name[-1]} as they are now",
            )


def _check_segment(segment: _Segment, ahead: int) -> None:
    rows_q, rows_k = segment.rows_q, segment.rows_k
    where = f"segment {segment.number} has {rows_q} query rows and {rows_k} key rows"
    if not rows_q or not rows_k:
        side, other = ("cu_seqlens_k", "query") if rows_q else ("cu_seqlens_q", "key")
        raise _error(
            side,
            f"{where}: Ascend's varlen operators take no segment that is empty on one side only",
            expected="rows on both sides or on neither",
            actual=0,
            hint=f"drop the {other} rows of the segment",
        )
    unseeing = rows_q - rows_k - ahead
    if ahead >= 0 and unseeing > 0:
        raise _error(
            "cu_seqlens_k",
            f"{where}: its first {unseeing} query rows see no key (right edge of the window: {ahead}), and Ascend's "
            "varlen operators take no row that is masked entirely",
            expected=f"at least {rows_q - ahead} key rows",
            actual=rows_k,
            hint="drop those query rows, or the keys' segment is not the queries' own",
        )
    for name, rows in (("cu_seqlens_q", rows_q), ("cu_seqlens_k", rows_k)):
        if rows > MAX_ROWS:
            raise _error(
                name,
                f"{where}: Ascend's varlen operators take sequences of at most {MAX_ROWS} rows",
                expected=f"at most {MAX_ROWS}",
                actual=rows,
                hint="shard the sequence",
            )


def _groups(segments: list[_Segment]) -> list[list[_Segment]]:
    """Cut into runs that are within the operators' limits."""
    groups: list[list[_Segment]] = []
    for segment in segments:
        group = groups[-1] if groups else None
        if (
            group is None
            or len(group) == MAX_SEGMENTS
            or segment.end_q - group[0].start_q > MAX_ROWS
            or segment.end_k - group[0].start_k > MAX_ROWS
        ):
            groups.append([segment])
        else:
            group.append(segment)
    return groups


def _piece(group: list[_Segment], first_q: int, first_k: int) -> Piece:
    start_q, start_k = group[0].start_q, group[0].start_k
    # A plan outlives the forward that made it, and inference tensors must not meet autograd.
    with torch.inference_mode(False):
        ends_q = torch.tensor([one.end_q - start_q for one in group])
        ends_k = torch.tensor([one.end_k - start_k for one in group])
    return Piece(
        rows_q=slice(start_q - first_q, group[-1].end_q - first_q),
        rows_k=slice(start_k - first_k, group[-1].end_k - first_k),
        ends_q=ends_q,
        ends_k=ends_k,
        longest_q=max(one.rows_q for one in group),
    )


def _error(argument: str, problem: str, *, expected: object, actual: object, hint: str) -> ContractError:
    return ContractError(
        f"varlen_attention on npu: {argument} {problem}; {hint}",
        argument=argument,
        axis=0,
        expected=expected,
        actual=actual,
        hint=hint,
    )
