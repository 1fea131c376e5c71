"""The tensors of packed rows that the pieces of a plan fill."""

from enum import Enum, auto

import torch
from torch import Tensor

from shapecheck._attention.kernels.cpu_rows import Rows


class Filling(Enum):
    """How pieces fill a tensor.

    WHOLE: one piece is the tensor, row for row.
    ALL: every row is in one piece.
    SOME: every row is in one piece or in none.
    SUM: a row may be in several pieces, whose values are added.
    """

    WHOLE = auto()
    ALL = auto()
    SOME = auto()
    SUM = auto()


class Filled:
    """A contiguous tensor `[T, H, columns]` in the making, in the dtype of `like` and of its first two sizes."""

    def __init__(self, like: Tensor, columns: int, filling: Filling) -> None:
        self._dtype = like.dtype
        self._columns = columns
        self._filling = filling
        if filling is not Filling.WHOLE:
            make = like.new_empty if filling is Filling.ALL else like.new_zeros
            # Sums are rounded once, at the end.
            dtype = torch.promote_types(like.dtype, torch.float32) if filling is Filling.SUM else like.dtype
            self._tensor = make((*like.shape[:2], columns), dtype=dtype)

    def put(self, rows: Rows, batch: Tensor) -> None:
        """Put `batch` `[groups, H, count, columns or more]`, in any dtype."""
        if batch.shape[3] > self._columns:
            batch = batch[..., : self._columns]
        if self._filling is Filling.WHOLE:
            self._tensor = batch.transpose(1, 2).flatten(0, 1).contiguous()
        elif self._filling is Filling.SUM:
            rows.add(self._tensor, converted(batch, self._tensor.dtype))
        else:
            rows.write(self._tensor, converted(batch, self._tensor.dtype))

    def finish(self) -> Tensor:
        """What was put, zeros where nothing was."""
        return self._tensor.to(self._dtype)


def converted(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """`tensor.to(dtype)`, at no cost where that is nothing to do: there are many pieces."""
    return tensor if tensor.dtype == dtype else tensor.to(dtype)
