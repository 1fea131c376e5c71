"""Segments whose rows stand anywhere in the tensors: `order_q` and `order_k`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from shapecheck._attention.kernels.cpu_band import FAR, Band, Block, mask_rows, visible
from shapecheck._attention.kernels.cpu_piece import Numbered, Piece
from shapecheck._attention.kernels.cpu_rows import Gathered, Rows, Strided
from shapecheck._errors import ContractError

_CHUNK = 128  # queries under one mask of row numbers


@dataclass(frozen=True, slots=True)
class Orders:
    """The row of each packed row, `[Tq]` and `[Tk]` int64."""

    q: Tensor
    k: Tensor

    @classmethod
    def of(cls, order_q: bytes, order_k: bytes) -> "Orders":
        """From the tensors' bytes."""
        return cls(*(_integers(content) for content in (order_q, order_k)))


def _integers(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.int64) if content else torch.empty(0, dtype=torch.int64)


def place(blocks: Sequence[Block], orders: Orders) -> tuple[list[Block], list[Block]]:
    """Blocks of packed rows, as those whose rows are neighbours in the tensors, and the others.

    The former come back in the tensors' rows, with their shift as the orders mean it; the latter as they are.

    Raises ContractError unless orders name rows of their tensors, each once, in increasing sequence inside a segment.
    """
    first_q, last_q = _ends("order_q", orders.q, [block.q0 for block in blocks], [block.nq for block in blocks])
    first_k, last_k = _ends("order_k", orders.k, [block.k0 for block in blocks], [block.nk for block in blocks])
    together, scattered = [], []
    for block, q0, q1, k0, k1 in zip(blocks, first_q, last_q, first_k, last_k, strict=True):
        if q1 - q0 == block.nq - 1 and k1 - k0 == block.nk - 1:
            together.append(replace(block, q0=q0, k0=k0, shift=q0 - k0))
        else:
            scattered.append(block)
    return together, scattered


def _ends(name: str, order: Tensor, starts: Sequence[int], counts: Sequence[int]) -> tuple[list[int], list[int]]:
    """First and last row of each segment."""
    if not starts:
        return [], []
    first, count = torch.tensor(starts), torch.tensor(counts)
    within = torch.arange(int(count.sum())) - torch.repeat_interleave(count.cumsum(0) - count, count)
    used = order[torch.repeat_interleave(first, count) + within]
    low, high = (int(end) for end in used.aminmax())
    if low < 0 or high >= order.numel():
        wrong = low if low < 0 else high
        raise _error(name, f"holds {wrong}, expected rows 0..{order.numel() - 1} of {name[-1]}", wrong)
    if bool(((used[1:] <= used[:-1]) & (within[1:] > 0)).any()):
        raise _error(name, "does not increase inside a segment", None)
    if int(torch.zeros_like(order, dtype=torch.bool).index_fill_(0, used, value=True).sum()) < used.numel():
        raise _error(name, "names a row twice", None)
    return order[first].tolist(), order[first + count - 1].tolist()


def _error(name: str, problem: str, actual: int | None) -> ContractError:
    fix = "sort the rows by segment with torch.argsort(segment_ids, stable=True)"
    return ContractError(
        f"varlen_attention: {name} {problem}\n  fix: {fix}", argument=name, axis=0, actual=actual, hint=fix
    )


def ordered_pieces(blocks: Sequence[Block], orders: Orders, band: Band) -> tuple[list[Piece], bool]:
    """Pieces of blocks whose rows `orders` places, and whether keys are in several of them."""
    pieces: list[Piece] = []
    shared = False
    for block in blocks:
        rows_q = orders.q[block.q0 : block.q0 + block.nq]
        rows_k = orders.k[block.k0 : block.k0 + block.nk]
        if not band.limited:
            pieces.append(Piece(_rows(rows_q), _rows(rows_k)))
        elif band == Band(FAR, 0) and torch.equal(rows_q, rows_k):
            pieces.append(Piece(_rows(rows_q), _rows(rows_k), causal=True))
        else:
            chunk = mask_rows(_CHUNK, block.nk)
            numbered = (_numbered(rows, rows_k, band) for rows in torch.split(rows_q, chunk))
            pieces += [piece for piece in numbered if piece is not None]
            shared |= block.nq > chunk
    return pieces, shared


def _rows(rows: Tensor) -> Rows:
    first, count = int(rows[0]), rows.numel()
    if int(rows[-1]) - first == count - 1:
        return Strided(1, count, first, count)
    return Gathered(1, rows)


def _numbered(rows_q: Tensor, rows_k: Tensor, band: Band) -> Piece | None:
    """A piece of the queries that see a key, and the keys from the first that one sees to the last."""
    ends = torch.tensor([int(rows_q[0]) - band.left, int(rows_q[-1]) + band.right + 1])
    rows_k = rows_k[slice(*torch.searchsorted(rows_k, ends).tolist())]
    sees = visible(rows_q, rows_k, band)
    rows_q = rows_q[sees.any(-1)]
    if not rows_q.numel():
        return None
    mask = None if bool(sees.all()) else Numbered(rows_q, rows_k, band)
    return Piece(_rows(rows_q), _rows(rows_k), mask=mask)
