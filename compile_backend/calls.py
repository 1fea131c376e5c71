"""Calls of operators that take boundaries themselves: never rewritten, but looked at as attentions are.

A contradiction ends the call in an exception, so it must be certain: only of operators that the linter's catalogue
describes, only of sizes and numbers that are fixed in this graph, and of values never. Of masks nothing is: tags that
have different limits for queries and keys are legal, and a row that sees no key is defined.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import sympy  # type: ignore[import-untyped]
from shapecheck.compile_backend.calls_arguments import Call, Side, label_of, row_of, sides_of
from shapecheck.compile_backend.calls_checks import END, NOTHING, ORDER, START, Checks, call_location
from shapecheck.compile_backend.calls_facts import Reader, whole_number
from shapecheck.compile_backend.calls_operators import OWN
from shapecheck.compile_backend.calls_site import site_of
from shapecheck.compile_backend.normalize import Normalized
from shapecheck.compile_backend.reading import Memory, shape_text, tensor
from shapecheck.compile_backend.report import Contradiction, Obligation, Site, Status
from torch import fx


class Calls:
    """Looks at the calls of one capture."""

    def __init__(self, normalized: Normalized, memory: Memory, contradictions: list[Contradiction]) -> None:
        self._normalized = normalized
        self._reader = Reader(normalized, memory)
        self.checks = Checks(normalized, memory)
        self._contradictions = contradictions

    def look(self, call: Call) -> Site:
        """What is known of one call; checks of what is not known go into Dynamo's graph."""
        sides = list(sides_of(call, self._normalized, self._reader))
        before = len(self._contradictions)
        done = [*self._dtypes(call, sides), *self._pair(call, sides)]
        alike: dict[object, list[Side]] = {}
        for side in sides:
            alike.setdefault((side.held if isinstance(side.held, fx.Node) else side.argument, side.rows), []).append(
                side
            )
        wrong = [self._wrong(call, group[0], label_of(group)) for group in alike.values()]
        done += [one for one in wrong if one is not None]
        right = [group for group, one in zip(alike.values(), wrong, strict=True) if one is None]
        for group in right:
            for side in group:
                done += self._longest(call, side)
        # What is wrong already needs no check.
        done += self._values(call, right, len(self._contradictions) > before)
        found = self._contradictions[before:]
        reason = "varlen already"
        if found:
            reason += f", and contradicts itself: {found[0].argument} {found[0].problem}"
        return replace(site_of(call, sides, self._location(call.output)), obligations=tuple(done), reason=reason)

    def _location(self, node: fx.Node) -> str:
        return call_location(self._normalized, node)

    # Obligations ----------------------------------------------------------------------------------------------------

    def _contradicted(
        self,
        call: Call,
        name: str,
        side: Side,
        problem: str,
        expected: object,
        actual: object,
        hint: str,
        other: tuple[str, str] | None = None,
    ) -> Obligation:
        if not call.operator.described:
            return Obligation(
                name, "refused", f"unchecked: {side.argument} {problem}, if {call.operator.name} asks that"
            )
        sources = [f"{side.argument}: {side.came}"]
        if other is not None:
            sources.append(f"{other[0]}: {other[1]}")
        self._contradictions.append(
            Contradiction(
                operator=call.operator.name,
                location=self._location(call.output),
                argument=side.argument,
                problem=problem,
                sources=tuple(sources),
                expected=expected,
                actual=actual,
                bound_by=None if other is None else other[0],
                hint=hint,
            )
        )
        return Obligation(name, "contradicted", f"{side.argument} {problem}")

    def _dtypes(self, call: Call, sides: Sequence[Side]) -> Iterator[Obligation]:
        wanted = call.operator.dtypes
        for side in sides:
            if wanted is None or not isinstance(side.held, fx.Node):
                continue
            found = tensor(side.held).dtype
            name, expected = f"dtype of {side.argument}", " or ".join(map(str, wanted))
            if found in wanted:
                yield Obligation(name, "guarded", str(found))
            else:
                hint = f"convert it where it is made, once: .to({wanted[0]})"
                yield self._contradicted(call, name, side, f"is {found}, expected {expected}", expected, found, hint)

    def _pair(self, call: Call, sides: Sequence[Side]) -> Iterator[Obligation]:
        if len(sides) != 2 or sides[0].ends != sides[1].ends:
            return
        q, k = sides
        name = "queries and keys of one batch"
        if isinstance(q.held, fx.Node) and q.held is k.held:
            yield Obligation(name, "proved", f"{q.argument} and {k.argument} are one tensor")
            return
        if q.count is None or k.count is None:
            yield Obligation(name, "refused", "unchecked: boundaries are not one row of numbers")
            return
        difference = sympy.expand(k.count - q.count)
        if difference == 0:
            yield Obligation(name, "guarded", f"{q.argument} and {k.argument} both have {q.count} boundaries")
        elif difference.is_Integer:
            problem = f"has {k.count} boundaries, expected {q.count} as {q.argument} has"
            hint = "build both from the lengths of one batch"
            yield self._contradicted(call, name, k, problem, str(q.count), str(k.count), hint, (q.argument, q.came))
        elif call.operator.name == OWN:
            yield Obligation(name, "checked", f"at run time by {OWN}")
        else:
            detail = (
                f"unchecked: {q.argument} has {q.count} boundaries, {k.argument} {k.count}; a contract would check it"
            )
            yield Obligation(name, "refused", detail)

    def _values(self, call: Call, groups: Sequence[Sequence[Side]], contradicted: bool) -> list[Obligation]:
        """What must hold of the values of boundaries; arguments with the same boundaries are one group."""
        done: list[Obligation] = []
        open_: list[tuple[Side, list[tuple[str, str]]]] = []
        for group in groups:
            side = group[0]
            label = label_of(group)
            contract = NOTHING if (row := row_of(call, side)) is None else self.checks.by_contract(row, call.output)
            left = []
            for part, name, fact in _facts(side, label, call.operator.exact):
                if fact is not None:
                    done.append(Obligation(name, *fact))
                elif part in contract.parts:
                    done.append(Obligation(name, "checked", f"at run time by the contract of {contract.function}"))
                else:
                    left.append((name, side.known.source))
            if left:
                open_.append((side, left))
        rows = [row for side, _ in open_ if (row := row_of(call, side)) is not None]
        if not call.operator.described:
            why = f"unchecked: what {call.operator.name} asks of them is not known; a contract would check it"
        elif contradicted:
            why = "unchecked: another contradiction was found first"
        elif len(rows) < len(open_):
            why = "unchecked: only 1-D tensors of int32 or int64 can be checked"
        elif rows and (obstacle := self.checks.insert(rows, self._called(call), call.output)):
            why = f"unchecked: {obstacle}"
        else:
            why = ""
        status: Status = "refused" if why else "checked"
        for _, left in open_:
            for name, source in left:
                done.append(Obligation(name, status, f"{why or 'at run time by an operator put in here'} ({source})"))
        return done

    def _called(self, call: Call) -> str:
        place = self._location(call.output)
        return f"{call.operator.name} at {place}" if place else call.operator.name

    def _wrong(self, call: Call, side: Side, label: str) -> Obligation | None:
        """The first thing that constant boundaries contradict, if they do."""
        values, first = side.known.values or (), side.known.first
        if first is None:
            return None
        name = f"{label} never decrease"
        if not side.ends and first != 0:
            hint = "prepend the leading zero: these look like the ends, or the lengths, of segments"
            problem = f"starts at {first}, expected 0"
            return self._contradicted(call, f"{label} start at 0", side, problem, 0, first, hint)
        for before, after in pairwise(values):
            if after < before:
                problem = f"falls from {before} to {after}: boundaries must not decrease"
                hint = "pass the running sum of the lengths, not the lengths"
                return self._contradicted(call, name, side, problem, f"at least {before}", after, hint)
        if side.rows is None or not side.rows.is_Integer or not values:
            return None
        rows, last = int(side.rows), values[-1]
        if last > rows or (call.operator.exact and last != rows):
            most = "" if call.operator.exact else "at most "
            problem = f"ends at {last}, expected {most}{rows}: {side.rows_of} has {rows} rows"
            hint = "build the boundaries from the lengths of what was packed, after padding or trimming it"
            other = (side.rows_of, self._operand(call, side.rows_of))
            return self._contradicted(
                call, f"{label} end within the rows", side, problem, f"{most}{rows}", last, hint, other
            )
        return None

    def _operand(self, call: Call, name: str) -> str:
        held = call.given[name]
        place = self._location(held)
        came = self._reader.source(held)
        return f"{shape_text(held)}, {came} at {place}" if place else f"{shape_text(held)}, {came}"

    def _longest(self, call: Call, side: Side) -> Iterator[Obligation]:
        if side.longest is None:
            return
        argument, given = side.longest
        most = whole_number(given)
        if most is None:
            return
        name = f"{argument} covers the longest segment"
        values = side.known.values
        if values is not None:
            starts = (0, *values) if side.ends else values
            longest = max((after - before for before, after in pairwise(starts)), default=0)
            if not most.is_Integer:
                yield Obligation(name, "refused", f"unchecked: it must be at least {longest}")
            elif most >= longest:
                yield Obligation(name, "proved", f"{most}, and the longest has {longest} rows")
            else:
                problem = f"is {most}, expected at least {longest}, the longest segment of {side.argument}"
                hint = "compute it from the same lengths as the boundaries: max(lengths)"
                own = replace(side, argument=argument, came=f"the number {most}")
                yield self._contradicted(
                    call, name, own, problem, f"at least {longest}", int(most), hint, (side.argument, side.came)
                )
        elif side.rows is not None and sympy.expand(most - side.rows).is_nonnegative:
            yield Obligation(name, "guarded", f"{most}, and there are {side.rows} rows in all")
        elif (
            isinstance(given, fx.Node) and isinstance(side.held, fx.Node) and self._reader.is_longest(given, side.held)
        ):
            yield Obligation(name, "proved", f"it is the longest of {side.argument}")
        else:
            detail = f"unchecked: nothing relates {most} to {side.argument}; the number of rows is always enough"
            yield Obligation(name, "refused", detail)


def _facts(side: Side, label: str, exact: bool) -> Iterator[tuple[str, str, tuple[Status, str] | None]]:
    """What must hold of boundaries, and by which fact it does; None where no fact is known."""
    known = side.known
    if not side.ends:
        yield START, f"{label} start at 0", ("proved", known.source) if known.first == 0 else None
    yield ORDER, f"{label} never decrease", ("proved", known.ordered) if known.ordered else None
    name = f"{label} end {'at' if exact else 'within'} the rows"
    left = None if side.rows is None or known.last is None else sympy.expand(side.rows - known.last)
    # Facts bound the last boundary from above; only of constants is it known itself.
    fits = left is not None and (bool(left.is_nonnegative) if not exact else left == 0 and known.values is not None)
    if side.rows_of == "":
        return
    if side.rows is None:
        yield END, name, ("refused", f"unchecked: it is not known how many rows {side.rows_of} has for this operator")
        return
    yield END, name, ("guarded", f"at most {known.last} of {side.rows}") if fits else None
