"""Groups of rows of a packed tensor, read as one batch and written back."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class Rows(Protocol):
    """`groups` times `count` rows of a tensor `[T, H, D]`, as a batch `[groups, H, count, D]`."""

    @property
    def size(self) -> int:
        """Number of rows."""
        ...

    def read(self, packed: Tensor) -> Tensor:
        """The batch; a view where the rows allow it."""
        ...

    def write(self, packed: Tensor, batch: Tensor) -> None:
        """Put `batch` where it was read. No row may be in two groups."""
        ...

    def covers(self, rows: int) -> bool:
        """Whether the groups are the tensor's `rows` rows, in their sequence."""
        ...

    def add(self, packed: Tensor, batch: Tensor) -> None:
        """Add `batch` where it was read. A row may be in several groups."""
        ...


@dataclass(frozen=True, slots=True)
class Strided:
    """Rows `start + g * step` and the `count - 1` behind, for every group `g`. Never copied."""

    groups: int
    count: int
    start: int
    step: int

    @property
    def size(self) -> int:
        return self.groups * self.count

    def read(self, packed: Tensor) -> Tensor:
        return self._view(packed)

    def write(self, packed: Tensor, batch: Tensor) -> None:
        self._view(packed).copy_(batch)

    def add(self, packed: Tensor, batch: Tensor) -> None:
        # Groups that overlap must not be added to in one go: every `apart`-th do not.
        apart = 1 if self.groups == 1 else -(-self.count // self.step)
        view = self._view(packed)
        for first in range(min(apart, self.groups)):
            view[first::apart].add_(batch[first::apart])

    def covers(self, rows: int) -> bool:
        return self.start == 0 and self.size == rows and (self.groups == 1 or self.step == self.count)

    def _view(self, packed: Tensor) -> Tensor:
        by_row, by_head, by_column = packed.stride()
        return packed.as_strided(
            (self.groups, packed.shape[1], self.count, packed.shape[2]),
            (self.step * by_row, by_head, by_row, by_column),
            packed.storage_offset() + self.start * by_row,
        )


@dataclass(frozen=True, slots=True)
class Gathered:
    """Any rows.

    Attributes:
        groups: number of groups.
        index: `[groups * count]` int64, the rows one group after the other.
        slots: which entries of `index` count; the others only fill their group up. None: all.
    """

    groups: int
    index: Tensor
    slots: Tensor | None = None

    @property
    def size(self) -> int:
        return (self.index if self.slots is None else self.slots).numel()

    def read(self, packed: Tensor) -> Tensor:
        rows = packed.index_select(0, self.index)
        return rows.view(self.groups, -1, *rows.shape[1:]).transpose(1, 2)

    def write(self, packed: Tensor, batch: Tensor) -> None:
        packed.index_copy_(0, *self._counting(batch))

    def add(self, packed: Tensor, batch: Tensor) -> None:
        packed.index_add_(0, *self._counting(batch))

    def covers(self, rows: int) -> bool:
        return False

    def _counting(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        rows = batch.transpose(1, 2).flatten(0, 1)
        if self.slots is None:
            return self.index, rows
        return self.index.index_select(0, self.slots), rows.index_select(0, self.slots)
