"""Invariants that look at one value at a time, and how they find the first bad one."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shapecheck._invariants._base import Finding, Invariant, Scope, is_tensor, shown

if TYPE_CHECKING:
    from torch import Tensor

# What torch compares and reduces; the rest (uint16, float8, complex, ...) goes through Python.
COMPARABLE = {"int64", "int32", "int16", "int8", "uint8", "bool", "float64", "float32", "bfloat16", "float16"}


class Elementwise(Invariant):
    """An invariant over every value by itself. Subclasses say what is good; this says which is bad."""

    def suits(self, *, tensor: bool, number: bool) -> bool:
        return True

    def looks_at(self, value: Any) -> bool:
        members = value if isinstance(value, (list, tuple)) else [value]
        return is_tensor(value) or all(isinstance(one, (int, float, str)) for one in members)

    def good(self, value: Any, scope: Scope) -> bool:
        """Whether one Python value is good."""
        raise NotImplementedError

    def good_mask(self, tensor: "Tensor", scope: Scope) -> "Tensor | None":
        """A bool tensor like `tensor`, or None where there is nothing to compare with."""
        raise NotImplementedError

    def number_code(self, name: str, symbols: Mapping[str, str]) -> str | None:
        """Source of the condition that the Python number `name` is good."""
        raise NotImplementedError

    def surely_good(self, tensor: "Tensor", scope: Scope) -> bool:
        """A quicker test that may say False for good values."""
        return False

    def expected(self, scope: Scope) -> str:
        """What a good value is, for the message."""
        raise NotImplementedError

    def hint(self) -> str | None:
        """How to mend a call whose tensor is wrong."""
        return None

    def find(self, value: Any, scope: Scope) -> Finding | None:
        shape: Sequence[int] | None = None
        hint = None
        if is_tensor(value):
            shape, hint = value.shape, self.hint()
            if str(value.dtype).removeprefix("torch.") not in COMPARABLE:
                value = value.flatten().tolist()
        if is_tensor(value):
            places = self._bad_places(value, scope)
            if places is None:
                return None
            at, count = places
            bad = value.flatten()[at].item()
        elif isinstance(value, (list, tuple)):
            wrong = [i for i, item in enumerate(value) if not self.good(item, scope)]
            if not wrong:
                return None
            at, count, bad = wrong[0], len(wrong), value[wrong[0]]
            shape = shape or (len(value),)
        elif self.good(value, scope):
            return None
        else:
            at, count, bad = 0, 1, value
        index = _unravelled(at, shape or ())
        origins = scope.origins(self.symbols())
        more = (f"{count} values are wrong; this is the first",) if count > 1 else ()
        return Finding(
            f"{_bracketed(index)} is {shown(bad)}, expected {self.expected(scope)}",
            expected=self.expected(scope),
            actual=bad,
            axis=0 if len(index) == 1 else None,
            bound_by=origins[0].argument if origins else None,
            notes=(*map(str, origins), *more),
            hint=hint,
        )

    def _bad_places(self, tensor: "Tensor", scope: Scope) -> tuple[int, int] | None:
        """The first bad place, flat, and how many there are; None if all is good."""
        if tensor.numel() == 0 or self.surely_good(tensor, scope):
            return None
        mask = self.good_mask(tensor, scope)
        if mask is None or bool(mask.all()):
            return None
        flat = (~mask).flatten()
        return int(flat.int().argmax()), int(flat.sum())

    def holds(self, values: Sequence[Any], scope: Scope) -> bool:
        return all(self.good(value, scope) for value in values)


def widened(tensor: "Tensor", low: int, high: int) -> "Tensor":
    """`tensor`, or its int64 copy where its dtype cannot hold `low` and `high`: torch would wrap them around."""
    import torch

    if tensor.is_floating_point() or tensor.dtype is torch.bool:
        return tensor
    limits = torch.iinfo(tensor.dtype)
    return tensor if limits.min <= low and high <= limits.max else tensor.long()


def widened_code(name: str) -> str:
    """Source of `widened` for any limits; for the dtypes in `COMPARABLE`."""
    return f"({name} if {name}.is_floating_point() else {name}.long())"


def _bracketed(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]" if index else ""


def _unravelled(at: int, shape: Sequence[int]) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        at, place = divmod(at, size)
        index.append(place)
    return tuple(reversed(index))
