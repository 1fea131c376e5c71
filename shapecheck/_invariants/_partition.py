"""`Partition`: index maps share the rows out among them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shapecheck._expressions import limit_names, limit_source, limit_value
from shapecheck._invariants._base import SHORT, Finding, Invariant, Operand, Scope, counted, host_list, is_tensor

_INTEGERS = ("int32", "int64")
_ELEMENT = re.compile(r"([A-Za-z_]\w*)\[(-?\d+)\]")


@dataclass(frozen=True, init=False)
class Partition(Invariant):
    """No row is named twice, in this index map or in any two of this one and the others; together they name every row
    of `0 .. of - 1` and no other. An overlap adds up or overwrites, a gap leaves rows as they were, both silently.

    An index map that is not at hand (None, or on a device that is not read) leaves open whether all is covered.

    Args:
        others: names of the other index maps, tensors or sequences of integers.
        of: how many rows there are: a number, an expression over axis symbols (`"S"`), or one element of an argument's
            boundaries (`"cu_seqlens[1]"`, the used rows before a padding segment). None leaves it open.
        covers: whether every row must be named; False wants the maps disjoint and in range only.
    """

    others: tuple[str, ...]
    of: str | int | None = None
    covers: bool = True

    def __init__(self, *others: str, of: str | int | None = None, covers: bool = True) -> None:
        if any(not isinstance(one, str) for one in others):
            raise ValueError(f"Partition{others!r}: expected names of arguments")
        object.__setattr__(self, "others", tuple(others))
        object.__setattr__(self, "of", of)
        object.__setattr__(self, "covers", covers)
        if self._element() is None:
            limit_names(of)

    def __repr__(self) -> str:
        named = [*map(repr, self.others)]
        named += [f"of={self.of!r}"] if self.of is not None else []
        named += ["covers=False"] if not self.covers else []
        return f"Partition({', '.join(named)})"

    @classmethod
    def rebuild(cls, fields: dict[str, Any]) -> "Partition":
        return cls(*fields["others"], of=fields["of"], covers=fields["covers"])

    def _element(self) -> tuple[str, int] | None:
        """The argument and index of the boundary that `of` names."""
        match = _ELEMENT.fullmatch(self.of) if isinstance(self.of, str) else None
        return (match[1], int(match[2])) if match else None

    def symbols(self) -> tuple[str, ...]:
        return () if self._element() else limit_names(self.of)

    def arguments(self) -> tuple[str, ...]:
        element = self._element()
        return tuple(dict.fromkeys((*self.others, *([element[0]] if element else []))))

    def dtypes(self) -> tuple[str, ...]:
        return _INTEGERS

    def looks_at(self, value: Any) -> bool:
        if is_tensor(value):
            return str(value.dtype).removeprefix("torch.") in _INTEGERS
        return isinstance(value, (list, tuple)) and all(isinstance(one, int) for one in value)

    def _rows(self, scope: Scope) -> int | None:
        element = self._element()
        if element is None:
            return limit_value(self.of, scope.symbols)
        boundaries = host_list(scope.arguments.get(element[0], ()))
        return int(boundaries[element[1]]) if -len(boundaries) <= element[1] < len(boundaries) else None

    def find(self, value: Any, scope: Scope) -> Finding | None:
        maps = [("", value)]
        maps += [(name, scope.arguments[name]) for name in self.others if name in scope.arguments]
        complete, rows = len(maps) == len(self.others) + 1, self._rows(scope)
        covers = self.covers and complete
        if any(is_tensor(one) and one.numel() > SHORT for _, one in maps) and _surely_good(maps, rows, covers):
            return None
        seen: dict[int, tuple[str, int]] = {}
        for name, one in maps:
            for i, row in enumerate(host_list(one)):
                if row < 0 or (rows is not None and row >= rows):
                    return self._finding(name, i, f"is {row}, expected a row in 0 .. {self._shown(rows)}", row, scope)
                if row in seen:
                    other, at = seen[row]
                    where = f"{other or 'this map'}[{at}]" if other != name or name else f"[{at}]"
                    return self._finding(name, i, f"is {row}, which {where} names too: expected rows once", row, scope)
                seen[row] = (name, i)
        if covers and rows is not None and len(seen) != rows:
            missing = next(row for row in range(rows) if row not in seen)
            together = f" and {', '.join(self.others)}" if self.others else ""
            return Finding(
                f"{together} {'name' if self.others else 'names'} {counted(len(seen), 'row')}, expected all {rows}"
                f"{self._named()}: row {missing} is in none",
                expected=rows,
                actual=len(seen),
                axis=0,
                bound_by=self._bound_by(scope),
                notes=tuple(map(str, scope.origins(self.symbols()))),
                hint="build the index maps from one layout, after its last change",
            )
        return None

    def _finding(self, name: str, at: int, problem: str, row: int, scope: Scope) -> Finding:
        return Finding(
            f"{f': {name}' if name else ''}[{at}] {problem}",
            expected="every row once",
            actual=row,
            axis=0,
            bound_by=self._bound_by(scope),
            notes=tuple(map(str, scope.origins(self.symbols()))),
            hint="build the index maps from one layout, after its last change",
        )

    def _bound_by(self, scope: Scope) -> str | None:
        element, origins = self._element(), scope.origins(self.symbols())
        return element[0] if element else origins[0].argument if origins else None

    def _named(self) -> str:
        return f" ({self.of})" if isinstance(self.of, str) else ""

    def _shown(self, rows: int | None) -> str:
        return "" if rows is None else f"{rows - 1}{f' ({self.of} - 1)' if isinstance(self.of, str) else ''}"

    def holds(self, values: Sequence[Any], scope: Scope) -> bool:
        others = [host_list(scope.arguments[name]) for name in self.others if name in scope.arguments]
        together = [*values, *(row for one in others for row in one)]
        rows = self._rows(scope)
        if len(set(together)) != len(together) or any(
            row < 0 or (rows is not None and row >= rows) for row in together
        ):
            return False
        return rows is None or not self.covers or len(others) < len(self.others) or len(together) == rows

    def condition_code(self, name: str, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str | None:
        element = self._element()
        if any(one not in others for one in self.arguments()):
            return None
        if element is None:
            rows = limit_source(self.of, symbols)
            if rows is None and self.of is not None:
                return None
        else:
            rows = f"{others[element[0]].name}[{element[1]}]"
        # Without a name for torch.cat: the maps one after the other, then in order, with no sync.
        maps = [name, *(others[one].name for one in self.others)]
        sizes = [f"{one}.numel()" for one in maps]
        joined = f"{name}.flatten().long().new_zeros({' + '.join(sizes)})"
        for i, one in enumerate(maps):
            start, end = " + ".join(sizes[:i]) or "0", " + ".join(sizes[: i + 1])
            joined += f".slice_scatter({one}.flatten().long(), 0, {start}, {end})"
        parts = ["(s[1:] != s[:-1]).all()", "(s >= 0).all()"]
        if rows is not None:
            parts.append(f"(s < {rows}).all()")
            if self.covers:
                parts.append(f"(s.new_full((), {' + '.join(sizes)}) == {rows})")
        return f"(lambda s: {' & '.join(parts)})({joined}.sort().values)"


def _surely_good(maps: Sequence[tuple[str, Any]], rows: int | None, covers: bool) -> bool:
    import torch

    together = torch.cat([torch.as_tensor(one, dtype=torch.int64).flatten() for _, one in maps]).sort().values
    if bool((together[1:] == together[:-1]).any()) or int(together[0]) < 0:
        return False
    return rows is None or (int(together[-1]) < rows and (not covers or len(together) == rows))
