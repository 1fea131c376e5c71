"""`Contiguous`: the rows lie in memory as a kernel reads them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shapecheck._invariants._base import Finding, Invariant, Operand, Scope, is_tensor


@dataclass(frozen=True)
class Contiguous(Invariant):
    """Neighbours along an axis are neighbours in memory. An axis of one entry, or of a tensor without any, always is;
    of sparse and nested tensors nothing is said.

    Args:
        axis: the axis of stride 1, the last by default, as flash-attn wants; None wants the whole tensor contiguous.
    """

    axis: int | None = -1

    def __post_init__(self) -> None:
        if self.axis is not None and type(self.axis) is not int:
            raise ValueError(f"Contiguous(axis={self.axis!r}): expected the number of an axis, or None for all of them")

    def suits(self, *, tensor: bool, number: bool) -> bool:
        return tensor

    def reads_values(self) -> bool:
        return False

    def find_static(self, value: Any, scope: Scope) -> Finding | None:
        strides = _strides(value)
        if strides is None or 0 in value.shape:
            return None
        shape = tuple(value.shape)
        if self.axis is None:
            if _whole(shape, strides):
                return None
            problem, expected, at = f" has strides {list(strides)}, expected it contiguous", "contiguous", None
        else:
            fits = -len(shape) <= self.axis < len(shape)
            if not fits or shape[self.axis] <= 1 or strides[self.axis] == 1:
                return None
            at = self.axis % len(shape)
            problem, expected = f" axis {at} has stride {strides[at]}, expected 1", "stride 1"
        return Finding(
            problem,
            expected=expected,
            actual=strides if at is None else strides[at],
            axis=at,
            notes=(f"its shape is {list(shape)}, its strides are {list(strides)}",),
            hint="copy it into place after the last transpose or slice: .contiguous()",
        )

    def refusal_code(self, own: Operand, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str:
        name = own.name
        strided = f"f'{{{name}.layout}}' == 'torch.strided' and not {name}.is_nested"
        if self.axis is None:
            return f"{strided} and not {name}.is_contiguous()"
        least = self.axis + 1 if self.axis >= 0 else -self.axis
        return (
            f"{strided} and {name}.dim() >= {least} and {own.shape}[{self.axis}] > 1 and {name}.numel() > 0 "
            f"and {name}.stride({self.axis}) != 1"
        )


def _strides(value: Any) -> tuple[int, ...] | None:
    """The strides of a tensor or what stands for one; None where it has none."""
    if not is_tensor(value):
        strides: tuple[int, ...] | None = value.strides
        return strides
    return tuple(value.stride()) if str(value.layout) == "torch.strided" and not value.is_nested else None


def _whole(shape: Sequence[int], strides: Sequence[int]) -> bool:
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
