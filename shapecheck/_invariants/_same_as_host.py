"""`SameAsHost`: a device array and its host copy say the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from shapecheck._invariants._base import Finding, Invariant, Operand, Scope, host_list, is_tensor


@dataclass(frozen=True)
class SameAsHost(Invariant):
    """The values equal those of a host copy. Backends read one or the other, so a copy that was taken before its
    array changed gives different results on different backends.

    Args:
        other: name of the argument that holds the host copy: a sequence of numbers or a CPU tensor of the same length.
        relation: `"equal"`, or `"upper_bound"` where the copy may be larger, as vLLM's host lengths may.
    """

    other: str
    relation: Literal["equal", "upper_bound"] = "equal"

    def __post_init__(self) -> None:
        if self.relation not in ("equal", "upper_bound"):
            raise ValueError(f"SameAsHost(relation={self.relation!r}): expected 'equal' or 'upper_bound'")

    def suits(self, *, tensor: bool, number: bool) -> bool:
        return tensor

    def looks_at(self, value: Any) -> bool:
        return super().looks_at(value) or (is_tensor(value) and not value.is_complex())

    def arguments(self) -> tuple[str, ...]:
        return (self.other,)

    def find(self, value: Any, scope: Scope) -> Finding | None:
        other = scope.arguments.get(self.other)
        if other is None:
            return None
        mine, copy = host_list(value), host_list(other)
        hint = f"make {self.other} from this array, after its last change: .tolist()"
        if len(mine) != len(copy):
            return Finding(
                f" has {len(mine)} entries, expected {len(copy)} as its host copy {self.other} has",
                expected=len(copy),
                actual=len(mine),
                axis=0,
                bound_by=self.other,
                hint=hint,
            )
        upper = self.relation == "upper_bound"
        at = next((i for i, (a, b) in enumerate(zip(mine, copy, strict=True)) if (a > b if upper else a != b)), None)
        if at is None:
            return None
        return Finding(
            f"[{at}] is {mine[at]}, expected {'at most ' if upper else ''}{copy[at]} as in its host copy {self.other}",
            expected=copy[at],
            actual=mine[at],
            axis=0,
            bound_by=self.other,
            hint=hint,
        )

    def holds(self, values: Sequence[Any], scope: Scope) -> bool:
        other = scope.arguments.get(self.other)
        if other is None:
            return True
        copy = host_list(other)
        if len(values) != len(copy):
            return False
        return all(a <= b if self.relation == "upper_bound" else a == b for a, b in zip(values, copy, strict=True))

    def condition_code(self, name: str, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str | None:
        return None  # to compare on the device would copy the host array there at every call
