"""`SameDevice`: no hidden copy between devices."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shapecheck._invariants._base import Finding, Invariant, Operand, Scope


@dataclass(frozen=True)
class SameDevice(Invariant):
    """The tensor lives where another argument lives. Models that move metadata silently pay a copy every step.

    Args:
        other: name of the other argument.
    """

    other: str

    def suits(self, *, tensor: bool, number: bool) -> bool:
        return tensor

    def reads_values(self) -> bool:
        return False

    def arguments(self) -> tuple[str, ...]:
        return (self.other,)

    def find_static(self, value: Any, scope: Scope) -> Finding | None:
        theirs = scope.arguments.get(self.other)
        if theirs is None or str(value.device) == str(theirs.device):
            return None
        device, other = value.device, theirs.device
        return Finding(
            f" is on {device}, expected {other} as {self.other} is",
            expected=str(other),
            actual=str(device),
            bound_by=self.other,
            hint=f"move it once, where it is made: .to({str(other)!r}), or layout.to({str(other)!r})",
        )

    def refusal_code(self, own: Operand, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str | None:
        other = others.get(self.other)
        return None if other is None else f"{own.name}.device != {other.name}.device"
