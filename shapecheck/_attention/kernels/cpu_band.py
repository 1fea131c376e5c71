"""Where in its segment a query may look: between two limits around its own position."""

import functools
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from shapecheck._attention._call import Call

FAR = 1 << 62
"""No limit."""

_MOST_MASK = 1 << 21  # entries


@dataclass(frozen=True, slots=True)
class Band:
    """How far before and behind its own position a query sees, in rows; `FAR`: without limit."""

    left: int
    right: int

    @classmethod
    def of(cls, call: Call) -> "Band":
        """The band of a call's `causal` and `window`."""
        left, right = (FAR if limit < 0 else limit for limit in call.window)
        return cls(left, 0 if call.causal else right)

    @property
    def limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.left < FAR or self.right < FAR


@dataclass(frozen=True, slots=True)
class Block:
    """`nq` query rows from `q0` that attend `nk` key rows from `k0`: query `a` stands at key `a + shift`."""

    q0: int
    nq: int
    k0: int
    nk: int
    shift: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Equal for blocks that compute alike."""
        return self.nq, self.nk, self.shift

    def trim(self, band: Band) -> "Block | None":
        """Without queries that see no key, and keys that no query sees; None where nothing is left."""
        first = max(0, -self.shift - band.right)
        end = min(self.nq, self.nk - self.shift + band.left)
        if first >= end:
            return None
        return self.queries(first, end)._visible_keys(band)

    def queries(self, first: int, end: int) -> "Block":
        """Query rows `first:end` of it."""
        return replace(self, q0=self.q0 + first, nq=end - first, shift=self.shift + first)

    def _visible_keys(self, band: Band) -> "Block":
        first = max(0, self.shift - band.left)
        end = min(self.nk, self.nq + self.shift + band.right)
        return replace(self, k0=self.k0 + first, nk=end - first, shift=self.shift - first)

    def sees_all(self, band: Band) -> bool:
        """Whether every query sees every key."""
        return self.nk - 1 - self.shift <= band.right and self.nq - 1 + self.shift <= band.left

    def is_triangle(self, band: Band) -> bool:
        """Whether query `a` sees exactly keys `0..a`."""
        return band.right == 0 and self.shift == 0 and self.nq == self.nk and self.nq - 1 <= band.left

    def split(self, band: Band, rows: int) -> "list[Block]":
        """Blocks of at most `rows` queries, each with the keys that they see."""
        chunks = (self.queries(first, min(first + rows, self.nq)) for first in range(0, self.nq, rows))
        return [chunk._visible_keys(band) for chunk in chunks]


def visible(position_q: Tensor, position_k: Tensor, band: Band) -> Tensor:
    """Bool `[..., nq, nk]`: which of the positions `[..., nq]` sees which of `[..., nk]`."""
    ahead = position_k[..., None, :] - position_q[..., :, None]
    return (ahead <= band.right) & (ahead >= -band.left)


def chunk_rows(block: Block, band: Band) -> int:
    """How many queries of a long block to attend at once, under a mask of that many rows.

    Small chunks waste less on keys that not all of their queries see. Large ones compute faster: measured, 64 rows cost
    15-25 % more than 256. A mask of at most 8 MB, whatever the number of keys.
    """
    width = min(band.left + band.right + 1, block.nk)
    rows = 64 if width < 256 else 128 if width < 512 else 256
    return mask_rows(rows, _power_of_two(min(width + rows, block.nk)))


def mask_rows(rows: int, columns: int) -> int:
    """`rows`, or as many as a mask of that many columns may have."""
    return max(32, min(rows, _MOST_MASK // columns))


def band_mask(block: Block, band: Band) -> Tensor:
    """Additive float32 `[1, 1, nq, nk]` for a block of at most `chunk_rows` queries.

    It depends on where the last query stands seen from the last key, and so does one large mask of which chunks of a
    segment take the last rows and columns.
    """
    rows, columns = _power_of_two(block.nq), _power_of_two(block.nk)
    mask = _aligned_mask(rows, columns, block.shift + block.nq - block.nk, band)
    return mask[..., rows - block.nq :, columns - block.nk :]


@functools.lru_cache(maxsize=16)
def _aligned_mask(rows: int, columns: int, behind: int, band: Band) -> Tensor:
    position_q = torch.arange(-rows, 0) + behind
    position_k = torch.arange(-columns, 0)
    return additive(visible(position_q, position_k, band))[None, None]


def additive(visible: Tensor) -> Tensor:
    """Float32 to add to scores: 0 where `visible`, else -inf."""
    return visible.new_zeros(visible.shape, dtype=torch.float32).masked_fill_(~visible, -torch.inf)


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
