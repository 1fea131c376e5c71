"""Short segments side by side in tiles: one batched attention in place of very many small ones.

A call costs some 30 us whatever its size, as much as the attention of 32 rows (measured, 8 heads of 64, one thread of
an AVX2 machine; tiles of 16 and 32 rows cost the same for each row, those of 64 half as much again).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shapecheck._attention.kernels.cpu_band import Band, Block, additive, visible
from shapecheck._attention.kernels.cpu_orders import Orders
from shapecheck._attention.kernels.cpu_piece import Piece
from shapecheck._attention.kernels.cpu_rows import Gathered, Strided

TILE = 32
"""Rows of a tile; no longer segment goes into one."""

_TILES_AT_ONCE = 128  # the gathered rows of 128 tiles stay in the cache

_EQUAL_IN_TILE = 4  # so many equal segments in a tile win over a batch of single ones


def equals_in_tile(block: Block) -> int:
    """How many blocks of this shape to put into a tile; 1: a batch of single ones is as fast."""
    each = TILE // max(block.nq, block.nk)
    return each if each >= _EQUAL_IN_TILE else 1


def equal_tiles(first: Block, tiles: int, band: Band) -> Piece:
    """Tiles of equal blocks, of which each starts where the one before ends: views."""
    each = equals_in_tile(first)
    q = Strided(tiles, each * first.nq, first.q0, each * first.nq)
    k = Strided(tiles, each * first.nk, first.k0, each * first.nk)
    segment = torch.arange(each)
    same = segment[:, None, None, None] == segment[:, None]  # [segments, 1, segments, 1]
    seen = visible(torch.arange(first.nq) + first.shift, torch.arange(first.nk), band)[:, None]  # [nq, 1, nk]
    return Piece(q, k, mask=additive((same & seen).view(1, 1, q.count, k.count)))


def gathered_tiles(
    blocks: Sequence[Block], scattered: Sequence[Block], band: Band, orders: Orders | None
) -> list[Piece]:
    """Tiles of blocks of at most `TILE` queries and keys, filled in their sequence.

    Args:
        blocks: blocks of the tensors' own rows.
        scattered: blocks of packed rows that `orders` places, and whose row numbers `band` compares.
        band: what a query sees of its own segment.
        orders: of the call; None where nothing is scattered.
    """
    blocks = [*blocks, *scattered]
    tiles, slots_q, slots_k, used_q, used_k = 0, [], [], TILE, TILE
    for block in blocks:
        used_q += block.nq
        used_k += block.nk
        if used_q > TILE or used_k > TILE:
            tiles, used_q, used_k = tiles + 1, block.nq, block.nk
        slots_q.append(tiles * TILE - TILE + used_q - block.nq)
        slots_k.append(tiles * TILE - TILE + used_k - block.nk)
    shifts = [block.shift for block in blocks]
    is_scattered = torch.arange(len(blocks)) >= len(blocks) - len(scattered)
    starts, counts = [block.q0 for block in blocks], [block.nq for block in blocks]
    q = _Side.of(starts, counts, slots_q, shifts, is_scattered, None if orders is None else orders.q)
    starts, counts = [block.k0 for block in blocks], [block.nk for block in blocks]
    k = _Side.of(starts, counts, slots_k, [0] * len(blocks), is_scattered, None if orders is None else orders.k)
    return [_piece(q, k, first, min(first + _TILES_AT_ONCE, tiles), band) for first in range(0, tiles, _TILES_AT_ONCE)]


@dataclass(frozen=True, slots=True)
class _Side:
    """The queries or the keys of many short segments.

    Attributes:
        rows: the rows of the tensor.
        slots: the place of each in the tiles.
        segments: the segment of each.
        positions: what the band compares of each.
    """

    rows: Tensor
    slots: Tensor
    segments: Tensor
    positions: Tensor

    @classmethod
    def of(
        cls,
        starts: Sequence[int],
        counts: Sequence[int],
        slots: Sequence[int],
        shifts: Sequence[int],
        scattered: Tensor,
        order: Tensor | None,
    ) -> "_Side":
        repeats = torch.tensor(counts)
        segments = torch.repeat_interleave(repeats)
        within = torch.arange(segments.numel()) - (repeats.cumsum(0) - repeats)[segments]
        rows = torch.tensor(starts)[segments] + within
        positions = within + torch.tensor(shifts)[segments]
        if order is not None:
            placed = scattered[segments]
            rows[placed] = order[rows[placed]]
            positions = torch.where(placed, rows, positions)
        return cls(rows, torch.tensor(slots)[segments] + within, segments, positions)

    def tiles(self, first: int, end: int) -> "_Side":
        """The part in tiles `first:end`."""
        here = slice(*torch.searchsorted(self.slots, torch.tensor([first * TILE, end * TILE])).tolist())
        return _Side(self.rows[here], self.slots[here] - first * TILE, self.segments[here], self.positions[here])

    def spread(self, values: Tensor, tiles: int, fill: int) -> Tensor:
        """`[tiles, TILE]`, `values` in their slots."""
        table = torch.full((tiles * TILE,), fill)
        table[self.slots] = values
        return table.view(tiles, TILE)


def _piece(all_q: _Side, all_k: _Side, first: int, end: int, band: Band) -> Piece:
    tiles = end - first
    q, k = all_q.tiles(first, end), all_k.tiles(first, end)
    # Slots without a row repeat some row of the piece: what nobody asked to attend must not be read, it may be garbage.
    rows_q, rows_k = (side.spread(side.rows, tiles, int(side.rows[0])).flatten() for side in (q, k))
    segment_q, segment_k = q.spread(q.segments, tiles, -1), k.spread(k.segments, tiles, -2)
    mask = segment_q[:, :, None] == segment_k[:, None, :]
    if band.limited:
        mask &= visible(q.spread(q.positions, tiles, 0), k.spread(k.positions, tiles, 0), band)
    seeing = q.slots[mask.any(-1).flatten()[q.slots]]
    return Piece(
        Gathered(tiles, rows_q, None if seeing.numel() == rows_q.numel() else seeing),
        Gathered(tiles, rows_k, None if k.slots.numel() == rows_k.numel() else k.slots),
        mask=additive(mask)[:, None],
    )
