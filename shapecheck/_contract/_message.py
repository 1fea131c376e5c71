"""From a violation to the `ContractError` that the user reads."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from shapecheck._contract._diagnose import Violation
from shapecheck._contract._explain import Explanation, Group, explain_first, sentence
from shapecheck._contract._picture import Interval, Row, draw_rows
from shapecheck._contract._spec import Spec
from shapecheck._contract._values import host_readable
from shapecheck._draw import letters
from shapecheck._errors import ContractError
from shapecheck._invariants import OneOf, PrefixSum, SameBatch, is_tensor

if TYPE_CHECKING:
    from shapecheck._layout._geometry import Geometry, Span

_PLAIN = "="  # a row of which no parts are known
_MOST_RUNS = 5_000  # more than that is no picture, and an error must not take seconds


def error(
    spec: Spec, violation: Violation | None, values: Mapping[str, Any], kind: type[ContractError] = ContractError
) -> ContractError:
    """The exception for `violation`.

    Args:
        values: the call's arguments by name, as far as they are at hand; layouts and tags among them are drawn.
        kind: the class to raise.
    """
    assert violation is not None, f"{spec.function}: the generated check refused a call that fits its contract"
    lines = [*violation.notes, *_drawing(spec, violation, values)]
    if violation.hint:
        lines.append(f"fix: {violation.hint}")
    text = "\n".join([f"{spec.function}: {violation.problem}", *(f"  {line}" for line in lines)])
    return kind(
        text,
        argument=violation.argument,
        axis=violation.axis,
        expected=violation.expected,
        actual=violation.actual,
        bound_by=violation.bound_by,
        hint=violation.hint,
    )


def _drawing(spec: Spec, violation: Violation, values: Mapping[str, Any]) -> list[str]:
    expected, actual = violation.expected, violation.actual
    if violation.bound_by is None or type(expected) is not int or type(actual) is not int:
        return []
    mine, theirs = values.get(violation.argument), values.get(violation.bound_by)
    if _is_boundaries(spec, violation.argument):
        if _is_boundaries(spec, violation.bound_by) or violation.symbol is None:
            return _boundaries_beside(violation, _host_list(mine), _host_list(theirs))
        return _boundaries_in_row(violation, _host_list(mine), _parts_of(_geometries(values.values()), expected))
    if violation.symbol is None:
        return []
    at_hand = _geometries(values.values())
    made, base = _parts_of(_geometries([mine]), actual), _parts_of([*_geometries([theirs]), *at_hand], expected)
    if made and base:
        return _layouts_beside(violation, base, made)
    spans = _parts_of(at_hand, max(expected, actual)) or _parts_of(at_hand, min(expected, actual))
    if spans:
        return _parts_beside(violation, spans, expected, actual)
    tags = _tags(spec, values)
    return _tags_beside(violation, tags, expected, actual) if tags else []


def _is_boundaries(spec: Spec, name: str) -> bool:
    """Whether an argument is boundaries, or the host copy of some."""
    arguments = [spec.by_name[name]] if name in spec.by_name else []
    pairs = {one.other for argument in spec.arguments for one in argument.invariants if isinstance(one, SameBatch)}
    return name in pairs or any(
        isinstance(one, (PrefixSum, SameBatch)) for argument in arguments for one in argument.invariants
    )


def _geometries(values: Iterable[Any]) -> list["Geometry"]:
    """The layouts among `values`, and those that tensors among them were made by."""
    from shapecheck._layout import PackedLayout
    from shapecheck._layout._origin import origin

    found = []
    for value in values:
        if isinstance(value, PackedLayout):
            found.append(value.geometry)
        elif is_tensor(value) and (geometry := origin(value)) is not None:
            found.append(geometry)
    return found


def _parts_of(geometries: Iterable["Geometry"], rows: int) -> list["Span"]:
    """The parts of the first layout that has so many rows."""
    found = next((geometry for geometry in geometries if geometry.seq_len == rows), None)
    return [span for span in found.spans() if span.stop > span.start] if found else []


def _layouts_beside(violation: Violation, theirs: Sequence["Span"], mine: Sequence["Span"]) -> list[str]:
    assert violation.bound_by is not None
    drawn = _letters([*theirs, *mine])
    top, bottom = (
        Row(label, [Interval(span.start, span.stop, drawn[span.name]) for span in spans], spans[-1].stop)
        for label, spans in ((violation.bound_by, theirs), (violation.argument, mine))
    )
    shorter, longer = sorted((theirs, mine), key=lambda spans: spans[-1].stop)
    explanation = explain_first(_groupings(longer), shorter[-1].stop)
    if explanation and [group.name for group in explanation.kept] == list(dict.fromkeys(one.name for one in shorter)):
        line = sentence(explanation, "" if shorter is mine else violation.bound_by)
    else:
        line = f"{violation.argument} was made by another layout than {violation.bound_by}"
    return [
        line,
        *draw_rows(top, bottom, compare=True),
        _legend(drawn),
    ]


def _groupings(spans: Sequence["Span"]) -> list[list[Group]]:
    """The parts by name, then by sample: what tends to be forgotten as a whole."""
    names: dict[str, int] = {}
    samples: dict[str, int] = {}
    for span in spans:
        rows = span.stop - span.start
        names[span.name] = names.get(span.name, 0) + rows
        sample = span.name if span.sample is None else f"sample {span.sample}"
        samples[sample] = samples.get(sample, 0) + rows
    groupings = [names, samples] if len(samples) > 2 else [names]
    return [[Group(*item) for item in groups.items()] for groups in groupings]


def _parts_beside(violation: Violation, spans: Sequence["Span"], expected: int, actual: int) -> list[str]:
    assert violation.bound_by is not None
    whole = spans[-1].stop
    drawn = _letters(spans)
    full = [Interval(span.start, span.stop, drawn[span.name]) for span in spans]
    shorter = min(expected, actual)
    lines: list[str] = []
    partial = [one._replace(stop=min(one.stop, shorter)) for one in full if one.start < shorter]
    if whole > shorter:
        explanation, partial = _explained(spans, full, shorter) or (None, partial)
        if explanation is not None:
            lines.append(sentence(explanation, "" if shorter == actual else violation.bound_by))
    else:
        partial = full
        full = [*full, Interval(whole, max(expected, actual), _PLAIN)]
    top, bottom = (full, partial) if expected > actual else (partial, full)
    picture = draw_rows(Row(violation.bound_by, top, expected), Row(violation.argument, bottom, actual), compare=False)
    return [*lines, *picture, _legend(drawn)]


def _letters(spans: Sequence["Span"]) -> dict[str, str]:
    names = [span.name for span in spans if span.sample is not None]
    return {**letters(names), **{span.name: "." for span in spans if span.sample is None}}


def _legend(drawn: Mapping[str, str]) -> str:
    some = [f"{letter} {name}" for name, letter in drawn.items()]
    while len(", ".join(some)) > 100:
        some.pop()
    return f"({', '.join(some)}{', ...' if len(some) < len(drawn) else ''})"


def _explained(
    spans: Sequence["Span"], full: Sequence[Interval], rows: int
) -> tuple[Explanation, list[Interval]] | None:
    explanation = explain_first(_groupings(spans), rows)
    if explanation is None:
        return None
    kept = {group.name for group in explanation.kept}
    names = [{span.name, f"sample {span.sample}"} for span in spans]
    return explanation, [one for one, own in zip(full, names, strict=True) if own & kept]


def _tags(spec: Spec, values: Mapping[str, Any]) -> list[tuple[int, int]] | None:
    """The first argument of readable token tags, as runs of (tag, rows)."""
    for argument in spec.arguments:
        value = values.get(argument.name)
        if any(isinstance(one, OneOf) for one in argument.invariants) and is_tensor(value):
            assert value is not None
            if value.dim() == 1 and not value.is_floating_point() and host_readable(value, sync=False):
                tags, counts = value.detach().unique_consecutive(return_counts=True)
                return list(zip(tags.tolist(), counts.tolist(), strict=True))
    return None


def _tags_beside(violation: Violation, runs: list[tuple[int, int]], expected: int, actual: int) -> list[str]:
    rows = sum(count for _, count in runs)
    if len(runs) > _MOST_RUNS:
        return []
    if rows not in (expected, actual) or violation.bound_by is None:
        return []
    characters = {tag: str(tag) if 0 <= tag <= 9 else "." for tag, _ in runs}
    intervals, start = [], 0
    for tag, count in runs:
        intervals.append(Interval(start, start + count, characters[tag]))
        start += count
    top, bottom = (
        Row(label, intervals if rows == size else [Interval(0, size, _PLAIN)], size)
        for label, size in ((violation.bound_by, expected), (violation.argument, actual))
    )
    legend = ", ".join(f"{character} tag {tag}" for tag, character in list(characters.items())[:8])
    return [*draw_rows(top, bottom, compare=False), f"({legend})"]


def _host_list(value: Any) -> list[int] | None:
    """Boundaries at hand, if they can be read and can be drawn."""
    if is_tensor(value):
        if value.dim() != 1 or not host_readable(value, sync=False):
            return None
        value = value.tolist()
    if not isinstance(value, (list, tuple)) or len(value) > _MOST_RUNS:
        return None
    if not all(isinstance(one, int) for one in value):
        return None
    if any(later < earlier for earlier, later in pairwise(value)):
        return None
    return list(value)


def _segments(boundaries: Sequence[int]) -> list[Interval]:
    return [Interval(start, stop, str(i % 10)) for i, (start, stop) in enumerate(pairwise(boundaries)) if stop > start]


def _boundaries_beside(violation: Violation, mine: list[int] | None, theirs: list[int] | None) -> list[str]:
    if mine is None or theirs is None:
        return []
    assert violation.bound_by is not None
    top = Row(violation.bound_by, _segments(theirs), theirs[-1] if theirs else 0)
    bottom = Row(violation.argument, _segments(mine), mine[-1] if mine else 0)
    return draw_rows(top, bottom, compare=True)


def _boundaries_in_row(violation: Violation, mine: list[int] | None, spans: Sequence["Span"]) -> list[str]:
    if mine is None:
        return []
    assert violation.bound_by is not None
    rows = violation.expected
    drawn = _letters(spans)
    parts = [Interval(span.start, span.stop, drawn[span.name]) for span in spans] or [Interval(0, rows, _PLAIN)]
    bottom = Row(violation.argument, _segments(mine), mine[-1])
    picture = draw_rows(Row(violation.bound_by, parts, rows), bottom, compare=False)
    return [*picture, _legend(drawn)] if drawn else picture
