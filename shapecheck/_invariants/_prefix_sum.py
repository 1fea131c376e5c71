"""`PrefixSum`: the array is the boundaries of segments, `cu_seqlens`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from shapecheck._expressions import limit_names, limit_source, limit_value
from shapecheck._invariants._base import (
    INT32_MAX,
    SHORT,
    Finding,
    Invariant,
    Operand,
    Scope,
    counted,
    is_tensor,
    listed,
)


@dataclass(frozen=True)
class PrefixSum(Invariant):
    """Boundaries of at least one segment: 1-D, int32 or int64, non-decreasing, representable in int32.

    Args:
        start: the first boundary; None leaves it open.
        end: what the last boundary equals, a symbol or an expression over symbols (`"S"`) or a number; None leaves
            it open.
        tail: `"exact"` wants the last boundary to equal `end`, as Ascend's kernels do; `"allow"` lets rows beyond the
            last boundary be, as flash-attn does.
        empty: `"any"` lets segments be empty; `"none"` wants every boundary larger than the one before.

    Works on `[B+1]` tensors and on sequences of Python ints (the host copy).
    """

    start: int | None = 0
    end: str | int | None = None
    tail: Literal["exact", "allow"] = "exact"
    empty: Literal["any", "none"] = "any"

    def __post_init__(self) -> None:
        if self.start is not None and not isinstance(self.start, int):
            raise ValueError(f"PrefixSum(start={self.start!r}): expected a number; a symbol goes to end=")
        if self.tail not in ("exact", "allow"):
            raise ValueError(f"PrefixSum(tail={self.tail!r}): expected 'exact' or 'allow'")
        if self.empty not in ("any", "none"):
            raise ValueError(f"PrefixSum(empty={self.empty!r}): expected 'any' or 'none'")
        limit_names(self.end)

    def symbols(self) -> tuple[str, ...]:
        return limit_names(self.end)

    def dtypes(self) -> tuple[str, ...]:
        return ("int32", "int64")

    def looks_at(self, value: Any) -> bool:
        return super().looks_at(value) and not (is_tensor(value) and str(value.dtype)[6:] not in self.dtypes())

    def find_static(self, value: Any, scope: Scope) -> Finding | None:
        if len(value.shape) != 1:
            axes = len(value.shape)
            return Finding(f" has {axes} axes, expected 1: boundaries are one row of numbers", expected=1, actual=axes)
        return _too_few(int(value.shape[0])) if value.shape[0] < 2 else None

    def refusal_code(self, own: Operand, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str:
        return f"{own.name}.dim() != 1 or {own.shape}[0] < 2"

    def find(self, value: Any, scope: Scope) -> Finding | None:
        count = len(value)
        if count < 2:
            return _too_few(count)
        first, last, broken = _ends_and_first_decrease(value, count)
        if self.start is not None and first != self.start:
            return Finding(
                f"[0] is {first}, expected {self.start}",
                expected=self.start,
                actual=first,
                axis=0,
                hint="prepend the leading zero: these look like the ends, or the lengths, of segments"
                if self.start == 0
                else None,
            )
        if broken is not None:
            before, after = int(value[broken - 1]), int(value[broken])
            near = [int(one) for one in value[max(0, broken - 3) : broken + 3]]
            return Finding(
                f"[{broken}] is {after}, expected at least {before}: boundaries must not decrease",
                expected=f"at least {before}",
                actual=after,
                axis=0,
                notes=(f"around it: {listed(near)}",),
                hint="pass the running sum of the lengths, not the lengths",
            )
        if self.empty == "none" and (empty := _first_empty(value, count)) is not None:
            before = int(value[empty])
            return Finding(
                f"[{empty + 1}] is {before}, expected more than {before}: segment {empty} is empty",
                expected=f"more than {before}",
                actual=before,
                axis=0,
                hint="drop empty segments before the boundaries are built, on both sides of the attention",
            )
        end = limit_value(self.end, scope.symbols)
        if end is not None and (last > end if self.tail == "allow" else last != end):
            return self._wrong_end(last, end, scope)
        if last > INT32_MAX:
            return Finding(
                f"[-1] is {last}, expected at most {INT32_MAX}: varlen kernels index rows with int32",
                expected=f"at most {INT32_MAX}",
                actual=last,
                axis=0,
            )
        return None

    def _wrong_end(self, last: int, end: int, scope: Scope) -> Finding:
        most = "at most " if self.tail == "allow" else ""
        named = f" ({self.end})" if isinstance(self.end, str) else ""
        origins = scope.origins(self.symbols())
        if last > end:
            difference = f"the boundaries claim {counted(last - end, 'row')} more than there are"
        else:
            loose = f"the last {end - last} rows belong" if end - last > 1 else "the last row belongs"
            difference = f"{loose} to no segment"
        return Finding(
            f"[-1] is {last}, expected {most}{end}{named}",
            expected=end,
            actual=last,
            axis=0,
            bound_by=origins[0].argument if origins else None,
            notes=(*map(str, origins), difference),
            symbol=self.end if isinstance(self.end, str) and self.end.isidentifier() else None,
            hint="build the boundaries from the lengths of what was packed, after padding or trimming it",
        )

    def holds(self, values: Sequence[Any], scope: Scope) -> bool:
        if len(values) < 2 or values[-1] > INT32_MAX or list(values) != sorted(values):
            return False
        if self.start is not None and values[0] != self.start:
            return False
        if self.empty == "none" and len(set(values)) != len(values):
            return False
        end = limit_value(self.end, scope.symbols)
        if end is None:
            return True
        return bool(values[-1] <= end if self.tail == "allow" else values[-1] == end)

    def condition_code(self, name: str, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str:
        # `.long()`: comparing int32 with a larger number wraps around.
        parts = [
            f"({name}[1:] {'>' if self.empty == 'none' else '>='} {name}[:-1]).all()",
            f"({name}[-1].long() <= {INT32_MAX})",
        ]
        if self.start is not None:
            parts.append(f"({name}[0] == {self.start})")
        end = limit_source(self.end, symbols)
        if end is not None:
            parts.append(f"({name}[-1].long() {'<=' if self.tail == 'allow' else '=='} {end})")
        return " & ".join(parts)


def _too_few(count: int) -> Finding:
    return Finding(
        f" has {counted(count, 'entry', 'entries')}, expected at least 2: the boundaries of one segment",
        expected="at least 2 entries",
        actual=count,
        axis=0,
        hint="boundaries are [0, end of segment 1, ...]: one entry more than there are segments",
    )


def _ends_and_first_decrease(boundaries: Any, count: int) -> tuple[int, int, int | None]:
    if is_tensor(boundaries) and count > SHORT:
        decreases = boundaries[1:] < boundaries[:-1]
        broken = int(decreases.int().argmax()) + 1 if bool(decreases.any()) else None
        return int(boundaries[0]), int(boundaries[-1]), broken
    values = boundaries.tolist() if is_tensor(boundaries) else boundaries
    broken = next((i for i in range(1, count) if values[i] < values[i - 1]), None)
    return values[0], values[-1], broken


def _first_empty(boundaries: Any, count: int) -> int | None:
    """The first segment without rows, of boundaries that do not decrease."""
    if is_tensor(boundaries) and count > SHORT:
        same = boundaries[1:] == boundaries[:-1]
        return int(same.int().argmax()) if bool(same.any()) else None
    values = boundaries.tolist() if is_tensor(boundaries) else boundaries
    return next((i for i in range(count - 1) if values[i + 1] == values[i]), None)
