"""`OneOf`: every value is one of a few, as token tags are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from shapecheck._invariants._base import Operand, Scope, listed
from shapecheck._invariants._elementwise import Elementwise, widened, widened_code

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, init=False, repr=False)
class OneOf(Elementwise):
    """Every value of the tensor, or the Python value itself, equals one of `values`.

    `OneOf(-1, 0, 1, 2)` is H3's token tags. A model that computes `tag + 3 * step` from an unknown tag 3 reads
    another step's modulation without an error.

    Args:
        values: integers, or strings for arguments that are no tensors.
    """

    values: tuple[int | str, ...]

    def __init__(self, *values: int | str) -> None:
        if not values or not all(isinstance(value, (int, str)) for value in values):
            raise ValueError(f"OneOf({', '.join(map(repr, values))}): expected integers or strings, at least one")
        object.__setattr__(self, "values", values)

    def __repr__(self) -> str:
        return f"OneOf({', '.join(map(repr, self.values))})"

    @classmethod
    def rebuild(cls, fields: dict[str, Any]) -> "OneOf":
        return cls(*fields["values"])

    def suits(self, *, tensor: bool, number: bool) -> bool:
        return bool(self._numbers) or not (tensor or number)

    @cached_property
    def _allowed(self) -> frozenset[int | str]:
        return frozenset(self.values)

    @cached_property
    def _numbers(self) -> tuple[int, ...]:
        return tuple(sorted(int(value) for value in self.values if isinstance(value, int)))

    def good(self, value: Any, scope: Scope) -> bool:
        return value in self._allowed

    def holds(self, values: Sequence[Any], scope: Scope) -> bool:
        return self._allowed.issuperset(values)

    def good_mask(self, tensor: "Tensor", scope: Scope) -> "Tensor | None":
        if not self._numbers:
            return (tensor == 0) & (tensor == 1)  # no number is a string
        wide = widened(tensor, self._numbers[0], self._numbers[-1])
        return reduce(or_, [wide == number for number in self._numbers])

    def surely_good(self, tensor: "Tensor", scope: Scope) -> bool:
        # One pass over 60,000 tags instead of one a value.
        numbers = self._numbers
        contiguous = bool(numbers) and numbers[-1] - numbers[0] + 1 == len(set(numbers))
        if not contiguous or tensor.is_floating_point():
            return False
        low, high = tensor.aminmax()
        return bool(low.item() >= numbers[0] and high.item() <= numbers[-1])

    def expected(self, scope: Scope) -> str:
        return f"one of {listed([repr(value) for value in self.values])}"

    def hint(self) -> str | None:
        return "take the values from the layout that packed the rows, e.g. layout.token_tags"

    def condition_code(self, name: str, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str | None:
        wide = widened_code(name)
        return f"({' | '.join(f'({wide} == {number})' for number in self._numbers)}).all()"

    def number_code(self, name: str, symbols: Mapping[str, str]) -> str | None:
        return f"{name} in {self.values!r}"
