"""`SameBatch`: two arrays of boundaries describe the same sequences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from shapecheck._invariants._base import SHORT, Finding, Invariant, Operand, Scope, counted, host_list, is_tensor


@dataclass(frozen=True)
class SameBatch(Invariant):
    """As many boundaries as another argument has: sequence `i` of the one attends to sequence `i` of the other.

    Args:
        other: name of the other argument, boundaries `[B+1]` as this one: a tensor, or the host copy.
        empty: `"any"` lets a sequence be empty on one side; `"both"` refuses that, as Ascend's kernels do.
    """

    other: str
    empty: Literal["any", "both"] = "any"

    def __post_init__(self) -> None:
        if self.empty not in ("any", "both"):
            raise ValueError(f"SameBatch(empty={self.empty!r}): expected 'any' or 'both'")

    def reads_values(self) -> bool:
        return self.empty == "both"

    def arguments(self) -> tuple[str, ...]:
        return (self.other,)

    def find_static(self, value: Any, scope: Scope) -> Finding | None:
        other = scope.arguments.get(self.other)
        if other is None:
            return None
        entries, entries_other = _count(value), _count(other)
        if entries == entries_other:
            return None
        return Finding(
            f" has {_batch(entries)}, expected {_batch(entries_other)} as {self.other} has",
            expected=entries_other,
            actual=entries,
            axis=0,
            bound_by=self.other,
            hint=f"filter, chunk or pad both sides together: build it and {self.other} from one list of lengths",
        )

    def refusal_code(self, own: Operand, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str | None:
        other = others.get(self.other)
        return None if other is None else f"{own.name}.numel() != {other.name}.numel()"

    def find(self, value: Any, scope: Scope) -> Finding | None:
        other = scope.arguments.get(self.other)
        if other is None:
            return None
        if (finding := self.find_static(value, scope)) is not None:
            return finding
        if self.empty == "any":
            return None
        if is_tensor(value) and is_tensor(other) and _count(value) > SHORT:
            differ = (value.diff() == 0) != (other.diff() == 0)
            if not bool(differ.any()):
                return None
        mine, theirs = host_list(value), host_list(other)
        for i in range(len(mine) - 1):
            rows, rows_other = mine[i + 1] - mine[i], theirs[i + 1] - theirs[i]
            if (rows == 0) != (rows_other == 0):
                return Finding(
                    f" has {counted(rows, 'row')} in sequence {i}, but {self.other} has {rows_other}: "
                    "expected it empty on both sides or on neither",
                    expected=f"{'some' if rows == 0 else 'no'} rows for sequence {i}",
                    actual=rows,
                    axis=0,
                    bound_by=self.other,
                    hint="drop the sequence from both sides",
                )
        return None

    def holds(self, values: Sequence[Any], scope: Scope) -> bool:
        other = scope.arguments.get(self.other)
        if other is None:
            return True
        theirs = host_list(other)
        if len(values) != len(theirs):
            return False
        return self.empty == "any" or all(
            (values[i] == values[i + 1]) == (theirs[i] == theirs[i + 1]) for i in range(len(values) - 1)
        )

    def condition_code(self, name: str, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str | None:
        other = others.get(self.other)
        if other is None or self.empty == "any":
            return None
        return f"(({name}[1:] == {name}[:-1]) == ({other.name}[1:] == {other.name}[:-1])).all()"


def _count(boundaries: Any) -> int:
    """Entries of an array, or of something with a shape that stands for one."""
    if not hasattr(boundaries, "shape"):
        return len(boundaries)
    count = 1
    for size in boundaries.shape:
        count *= int(size)
    return count


def _batch(entries: int) -> str:
    return f"{counted(entries, 'boundary', 'boundaries')} ({counted(max(0, entries - 1), 'sequence')})"
