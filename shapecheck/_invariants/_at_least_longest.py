"""`AtLeastLongest`: `max_seqlen` is no smaller than the longest segment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from shapecheck._invariants._base import Finding, Invariant, Operand, Scope, counted, host_list, is_tensor, listed

_INTEGERS = ("int32", "int64")


@dataclass(frozen=True)
class AtLeastLongest(Invariant):
    """At least the length of the longest segment. Kernels launch as many tiles as it says: rows of a longer segment
    are silently left out. A larger number only costs time, so it is fine.

    Stands at `max_seqlen`, a Python int or a tensor of one integer.

    Args:
        boundaries: name of the argument that holds the boundaries `[B+1]`: a tensor, or its host copy.
        padding: `"none"` counts every segment; `"segment"` says that the last one is padding, which does not count.
    """

    boundaries: str
    padding: Literal["none", "segment"] = "none"

    def __post_init__(self) -> None:
        if self.padding not in ("none", "segment"):
            raise ValueError(f"AtLeastLongest(padding={self.padding!r}): expected 'none' or 'segment'")

    def arguments(self) -> tuple[str, ...]:
        return (self.boundaries,)

    def suits(self, *, tensor: bool, number: bool) -> bool:
        return tensor or number

    def dtypes(self) -> tuple[str, ...]:
        return _INTEGERS

    def looks_at(self, value: Any) -> bool:
        if is_tensor(value):
            return value.dim() <= 1 and str(value.dtype).removeprefix("torch.") in _INTEGERS
        members = value if isinstance(value, (list, tuple)) else [value]
        return all(isinstance(one, int) for one in members)

    def find_static(self, value: Any, scope: Scope) -> Finding | None:
        shape = tuple(value.shape)
        if all(size == 1 for size in shape):
            return None
        return Finding(
            f" has shape {list(shape)}, expected one number: the length of the longest segment",
            expected=1,
            actual=list(shape),
            hint="take the largest of the lengths: .max()",
        )

    def refusal_code(self, own: Operand, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str:
        return f"{own.name}.numel() != 1"

    def find(self, value: Any, scope: Scope) -> Finding | None:
        boundaries = scope.arguments.get(self.boundaries)
        if boundaries is None or not (is_tensor(boundaries) or isinstance(boundaries, (list, tuple))):
            return None
        longest = self._longest(host_list(boundaries))
        given = int(value)
        if longest is None or given >= longest[1]:
            return None
        at, rows = longest
        ends = host_list(boundaries)
        return Finding(
            f" is {given}, expected at least {rows}: segment {at} of {self.boundaries} has {counted(rows, 'row')}",
            expected=f"at least {rows}",
            actual=given,
            bound_by=self.boundaries,
            notes=(f"{self.boundaries} is {listed(ends)}",),
            hint=f"compute it from the lengths behind {self.boundaries}, after the last change of them",
        )

    def _longest(self, boundaries: Sequence[int]) -> tuple[int, int] | None:
        """The first longest segment that counts, and its rows; None where none counts."""
        lengths = [end - start for start, end in pairwise(boundaries)]
        counting = lengths[:-1] if self.padding == "segment" else lengths
        if not counting:
            return None
        rows = max(counting)
        return counting.index(rows), rows

    def holds(self, values: Sequence[Any], scope: Scope) -> bool:
        boundaries = scope.arguments.get(self.boundaries)
        if len(values) != 1:
            return False
        longest = None if boundaries is None else self._longest(host_list(boundaries))
        return bool(longest is None or values[0] >= longest[1])

    def condition_code(self, name: str, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str | None:
        other = others.get(self.boundaries)
        if other is None:
            return None
        # `.long()`: comparing int32 with a larger number wraps around. `.all()` is fine with no segments, `.max()` not.
        ends, starts = ("[1:-1]", "[:-2]") if self.padding == "segment" else ("[1:]", "[:-1]")
        return f"(({other.name}{ends}.long() - {other.name}{starts}) <= {name}).all()"
