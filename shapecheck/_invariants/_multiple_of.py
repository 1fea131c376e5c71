"""`MultipleOf`: a number, or an axis, is aligned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shapecheck._expressions import limit_names, limit_source, limit_value
from shapecheck._invariants._base import Finding, Operand, Scope
from shapecheck._invariants._elementwise import Elementwise

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class MultipleOf(Elementwise):
    """The value is a multiple of `n`; with `of`, an axis of the call is, whatever the argument holds.

    Args:
        n: the alignment, positive.
        of: a symbol or an expression over symbols: `MultipleOf(64, of="S")` says that the packed row is aligned.
    """

    n: int
    of: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.n, int) or self.n < 1:
            raise ValueError(f"MultipleOf({self.n!r}): expected a positive number")
        limit_names(self.of)

    def reads_values(self) -> bool:
        return self.of is None

    def symbols(self) -> tuple[str, ...]:
        return limit_names(self.of)

    def good(self, value: Any, scope: Scope) -> bool:
        return isinstance(value, (int, float)) and value % self.n == 0

    def good_mask(self, tensor: "Tensor", scope: Scope) -> "Tensor | None":
        return tensor.long() % self.n == 0 if not tensor.is_floating_point() else tensor % self.n == 0

    def find(self, value: Any, scope: Scope) -> Finding | None:
        return super().find(value, scope) if self.of is None else self.find_static(value, scope)

    def holds(self, values: Sequence[Any], scope: Scope) -> bool:
        return super().holds(values, scope) if self.of is None else self.find_static(values, scope) is None

    def find_static(self, value: Any, scope: Scope) -> Finding | None:
        size = limit_value(self.of, scope.symbols)
        if size is None or size % self.n == 0:
            return None
        origins = scope.origins(self.symbols())
        return Finding(
            f": {self.of} is {size}, expected a multiple of {self.n}",
            expected=f"a multiple of {self.n}",
            actual=size,
            axis=origins[0].axis if origins else None,
            bound_by=origins[0].argument if origins else None,
            notes=tuple(map(str, origins)),
            hint=f"pad the row to {-(-size // self.n) * self.n} and every array beside it: "
            f"PackedLayout.pack(..., align={self.n})",
        )

    def expected(self, scope: Scope) -> str:
        return f"a multiple of {self.n}"

    def refusal_code(self, own: Operand, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str | None:
        size = limit_source(self.of, symbols)
        return None if size is None else f"{size} % {self.n} != 0"

    def condition_code(self, name: str, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str | None:
        return f"({name} % {self.n} == 0).all()"

    def number_code(self, name: str, symbols: Mapping[str, str]) -> str | None:
        aligned = name if self.of is None else limit_source(self.of, symbols)
        return None if aligned is None else f"{aligned} % {self.n} == 0"
