"""`InRange`: indices stay inside what they index."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shapecheck._expressions import limit_names, limit_source, limit_value
from shapecheck._invariants._base import Operand, Scope
from shapecheck._invariants._elementwise import Elementwise, widened, widened_code

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class InRange(Elementwise):
    """Every value `v` has `low <= v < high`, as indices into an axis of `high` entries have.

    Args:
        low: number or expression over symbols.
        high: number or expression over symbols, itself excluded: `InRange(0, "M")` indexes an axis `M`.
    """

    low: int | str
    high: int | str

    def __post_init__(self) -> None:
        limit_names(self.low)
        limit_names(self.high)

    def symbols(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*limit_names(self.low), *limit_names(self.high))))

    def _limits(self, scope: Scope) -> tuple[int, int] | None:
        low, high = limit_value(self.low, scope.symbols), limit_value(self.high, scope.symbols)
        return None if low is None or high is None else (low, high)

    def good(self, value: Any, scope: Scope) -> bool:
        limits = self._limits(scope)
        return limits is None or (isinstance(value, (int, float)) and limits[0] <= value < limits[1])

    def holds(self, values: Sequence[Any], scope: Scope) -> bool:
        limits = self._limits(scope)
        if limits is None or not values:
            return True
        if isinstance(values[0], int):
            return bool(limits[0] <= min(values) and max(values) < limits[1])
        return all(self.good(value, scope) for value in values)  # min and max step over NaN

    def good_mask(self, tensor: "Tensor", scope: Scope) -> "Tensor | None":
        limits = self._limits(scope)
        if limits is None:
            return None
        wide = widened(tensor, *limits)
        return (wide >= limits[0]) & (wide < limits[1])

    def surely_good(self, tensor: "Tensor", scope: Scope) -> bool:
        limits = self._limits(scope)
        if limits is None:
            return True
        low, high = tensor.aminmax()
        return bool(low.item() >= limits[0] and high.item() < limits[1])

    def expected(self, scope: Scope) -> str:
        low, high = self._limits(scope) or (self.low, self.high)
        name = f" ({self.high})" if isinstance(self.high, str) else ""
        return f"{low} <= value < {high}{name}"

    def hint(self) -> str | None:
        return "an index that was made for other rows must be rebuilt, not clamped"

    def condition_code(self, name: str, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str | None:
        low, high = limit_source(self.low, symbols), limit_source(self.high, symbols)
        if low is None or high is None:
            return None
        wide = widened_code(name)
        return f"(({wide} >= {low}) & ({wide} < {high})).all()"

    def number_code(self, name: str, symbols: Mapping[str, str]) -> str | None:
        low, high = limit_source(self.low, symbols), limit_source(self.high, symbols)
        return None if low is None or high is None else f"{low} <= {name} < {high}"
