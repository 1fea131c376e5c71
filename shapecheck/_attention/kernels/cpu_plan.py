"""From boundaries to the batched attentions that compute one call: once a batch, for all layers of a model."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from shapecheck._attention._call import Call
from shapecheck._attention.kernels.cpu_band import Band, Block, band_mask, chunk_rows
from shapecheck._attention.kernels.cpu_filling import Filling
from shapecheck._attention.kernels.cpu_orders import Orders, ordered_pieces, place
from shapecheck._attention.kernels.cpu_piece import Piece
from shapecheck._attention.kernels.cpu_rows import Strided
from shapecheck._attention.kernels.cpu_tiles import TILE, equal_tiles, equals_in_tile, gathered_tiles
from shapecheck._errors import ContractError

_FEWEST_GATHERED = 8  # measured: gathering costs as much as the calls that it saves for 5 to 8 segments
_FEWEST_EQUAL_ROWS = 256  # equal short segments of fewer rows are gathered with the others


@dataclass(frozen=True, slots=True)
class Plan:
    """How to compute one call.

    Attributes:
        pieces: batched attentions. Every query row is in one of them at most.
        q: how they fill a tensor of query rows.
        k: how they fill a tensor of key rows.
    """

    pieces: tuple[Piece, ...]
    q: Filling
    k: Filling


def plan_for(call: Call, rows_q: int, rows_k: int) -> Plan:
    """The plan of `call` for tensors of `rows_q` and `rows_k` rows.

    Raises ContractError for boundaries or orders that would read out of the tensors' bounds.
    """
    boundaries = tuple(call.cu_seqlens_q.tolist()), tuple(call.cu_seqlens_k.tolist())
    orders = [None if one is None else one.numpy().tobytes() for one in (call.order_q, call.order_k)]
    return _plan(*boundaries, Band.of(call), rows_q, rows_k, *orders)


# Keyed by content, which costs microseconds: boundaries of the next batch may arrive in the memory of the last.
@functools.lru_cache(maxsize=8)
def _plan(
    cu_seqlens_q: tuple[int, ...],
    cu_seqlens_k: tuple[int, ...],
    band: Band,
    rows_q: int,
    rows_k: int,
    order_q: bytes | None,
    order_k: bytes | None,
) -> Plan:
    _check("cu_seqlens_q", cu_seqlens_q, rows_q)
    _check("cu_seqlens_k", cu_seqlens_k, rows_k)
    segments = zip(pairwise(cu_seqlens_q), pairwise(cu_seqlens_k), strict=True)
    blocks = [
        Block(start_q, end_q - start_q, start_k, end_k - start_k, (end_k - start_k) - (end_q - start_q))
        for (start_q, end_q), (start_k, end_k) in segments
        if start_q < end_q and start_k < end_k
    ]
    # Whatever default device the caller has set: these are the kernel's own tensors.
    with torch.device("cpu"):
        if order_q is None or order_k is None:
            pieces, keys_shared = _pieces(blocks, [], None, band)
        else:
            orders = Orders.of(order_q, order_k)
            pieces, keys_shared = _pieces(*place(blocks, orders), orders, band)
    alone = pieces[0] if len(pieces) == 1 else None
    fills_q = sum(piece.q.size for piece in pieces) == rows_q
    fills_k = sum(piece.k.size for piece in pieces) == rows_k
    return Plan(
        tuple(pieces),
        Filling.WHOLE if alone and alone.q.covers(rows_q) else Filling.ALL if fills_q else Filling.SOME,
        Filling.WHOLE
        if alone and alone.k.covers(rows_k)
        else Filling.SUM
        if keys_shared
        else Filling.ALL
        if fills_k
        else Filling.SOME,
    )


def _check(name: str, boundaries: Sequence[int], rows: int) -> None:
    fix = "pass the running sum of the lengths of what is packed in the tensor"
    if boundaries[0] < 0:
        raise ContractError(
            f"varlen_attention: {name}[0] is {boundaries[0]}, expected at least 0\n  fix: {fix}",
            argument=name,
            axis=0,
            expected="at least 0",
            actual=boundaries[0],
            hint=fix,
        )
    for i, (before, after) in enumerate(pairwise(boundaries), start=1):
        if after < before:
            raise ContractError(
                f"varlen_attention: {name}[{i}] is {after}, expected at least {before}: boundaries must not decrease"
                f"\n  fix: {fix}",
                argument=name,
                axis=0,
                expected=f"at least {before}",
                actual=after,
                hint=fix,
            )
    if boundaries[-1] > rows:
        raise ContractError(
            f"varlen_attention: {name}[-1] is {boundaries[-1]}, expected at most {rows}, the rows of {name[-1]}"
            f"\n  fix: {fix}",
            argument=name,
            axis=0,
            expected=f"at most {rows}",
            actual=boundaries[-1],
            bound_by=name[-1],
            hint=fix,
        )


def _pieces(
    blocks: Sequence[Block], scattered: Sequence[Block], orders: Orders | None, band: Band
) -> tuple[list[Piece], bool]:
    """Pieces of `blocks`, whose rows are the tensors' own, and of `scattered`, whose rows `orders` places."""
    pieces: list[Piece] = []
    alone: list[Block] = []
    few: list[Block] = []
    for run in _equal_neighbours(blocks):
        first, count = run[0], len(run)
        if max(first.nq, first.nk) > TILE:
            alone += run
        elif count * max(first.nq, first.nk) < _FEWEST_EQUAL_ROWS or _has_blind(first, band):
            few += run
        elif (each := equals_in_tile(first)) > 1:
            pieces.append(equal_tiles(first, count // each, band))
            few += run[count - count % each :]
        else:
            alone += run
    few_scattered = [block for block in scattered if max(block.nq, block.nk) <= TILE]
    if len(few) + len(few_scattered) >= _FEWEST_GATHERED:
        pieces += gathered_tiles(few, few_scattered, band, orders)
        scattered = [block for block in scattered if max(block.nq, block.nk) > TILE]
    else:
        alone += few
    parts, split = _parts(alone, band)
    pieces += _batches(parts, band)
    if orders is not None:
        ordered, split_ordered = ordered_pieces(scattered, orders, band)
        pieces += ordered
        split |= split_ordered
    return pieces, split


def _equal_neighbours(blocks: Iterable[Block]) -> list[list[Block]]:
    """Maximal runs of blocks of one shape, each where the one before ends."""
    runs: list[list[Block]] = []
    for block in blocks:
        last = runs[-1][-1] if runs else None
        if (
            last is not None
            and block.shape == last.shape
            and block.q0 == last.q0 + last.nq
            and block.k0 == last.k0 + last.nk
        ):
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs


def _has_blind(block: Block, band: Band) -> bool:
    """Whether some query sees no key."""
    seeing = block.trim(band)
    return seeing is None or seeing.nq < block.nq


def _parts(blocks: Sequence[Block], band: Band) -> tuple[list[Block], bool]:
    """Blocks cut down to what their queries see, and whether that cut any into several."""
    if not band.limited:
        return list(blocks), False
    parts: list[Block] = []
    several = False
    for whole in blocks:
        block = whole.trim(band)
        if block is None:
            continue
        rows = chunk_rows(block, band)
        if block.nq <= rows or block.sees_all(band) or block.is_triangle(band):
            parts.append(block)
        else:
            parts += block.split(band, rows)
            several = True
    return parts, several


def _batches(parts: Iterable[Block], band: Band) -> Iterable[Piece]:
    """One piece for all parts of one shape whose rows follow at equal distances."""
    by_shape: dict[tuple[int, int, int], list[Block]] = {}
    for part in parts:
        by_shape.setdefault(part.shape, []).append(part)
    for alike in by_shape.values():
        first, count, step = alike[0], 1, (0, 0)
        for last, part in pairwise(alike):
            further = (part.q0 - last.q0, part.k0 - last.k0)
            if min(further) > 0 and (count == 1 or further == step):
                count, step = count + 1, further
            else:
                yield _batch(first, count, step, band)
                first, count = part, 1
        yield _batch(first, count, step, band)


def _batch(first: Block, count: int, step: tuple[int, int], band: Band) -> Piece:
    q, k = Strided(count, first.nq, first.q0, step[0]), Strided(count, first.nk, first.k0, step[1])
    if first.sees_all(band):
        return Piece(q, k)
    if first.is_triangle(band):
        return Piece(q, k, causal=True)
    return Piece(q, k, mask=band_mask(first, band))
