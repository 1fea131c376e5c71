"""Two packed rows under each other, with the part marked where they part ways."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from shapecheck._draw import scale

_WIDTH = 60
_MOST_COLUMNS = 24
_MARKS = {"missing": "^", "extra": "+", "shifted": "~"}


class Interval(NamedTuple):
    """Rows `[start, stop)` drawn with one character."""

    start: int
    stop: int
    letter: str


@dataclass(frozen=True)
class Row:
    """One row of the picture: a label, what covers it (sorted), and the number of rows to print behind it."""

    label: str
    intervals: Sequence[Interval]
    rows: int


def draw_rows(top: Row, bottom: Row, *, compare: bool) -> list[str]:
    """The two rows to one scale, and a line of marks: `^` missing below, `+` extra below, `~` shifted.

    Args:
        compare: whether letters mean the same in both rows, so that different ones are a shift.
    """
    end = max((interval.stop for row in (top, bottom) for interval in row.intervals), default=0)
    cuts = sorted({0, end, *(cut for row in (top, bottom) for one in row.intervals for cut in one[:2])})
    columns = [_Column(start, stop, _at(top, start), _at(bottom, start), compare) for start, stop in pairwise(cuts)]
    if len(columns) > _MOST_COLUMNS:
        columns = _merged(columns, end)
    cells = scale([column.stop - column.start for column in columns], _WIDTH)
    lines, marks = ["", ""], ""
    for column, width in zip(columns, cells, strict=True):
        for i, (row, letter) in enumerate(((top, column.above), (bottom, column.below))):
            edge = "|" if width > 1 and column.start > 0 and _starts(row, column.start) else letter or " "
            lines[i] += edge + (letter or " ") * (width - 1)
        marks += (_MARKS[column.mark] if column.mark else " ") * width
    pad = max(len(top.label), len(bottom.label))
    words = [word for word, character in _MARKS.items() if character in marks]
    drawn = [f"{row.label:<{pad}}  [{line}] {row.rows}" for row, line in zip((top, bottom), lines, strict=True)]
    return [*drawn, f"{'':<{pad}}   {marks}  {' and '.join(words)}"] if words else drawn


class _Column:
    """Rows that look alike in both rows of the picture."""

    def __init__(self, start: int, stop: int, above: str | None, below: str | None, compare: bool) -> None:
        self.start, self.stop, self.above, self.below = start, stop, above, below
        self.mark = _mark(above, below, compare)


def _merged(columns: Sequence[_Column], end: int) -> list[_Column]:
    """At most `_WIDTH` columns of about equal width; one that holds a marked column is marked."""
    merged: dict[int, _Column] = {}
    for column in columns:
        cell = column.start * _WIDTH // end
        into = merged.setdefault(cell, column)
        if into is not column:
            into.stop = column.stop
            if column.mark and not into.mark:
                into.above, into.below, into.mark = column.above, column.below, column.mark
    return list(merged.values())


def _at(row: Row, position: int) -> str | None:
    i = bisect_right(row.intervals, position, key=lambda one: one.start) - 1
    return row.intervals[i].letter if i >= 0 and position < row.intervals[i].stop else None


def _starts(row: Row, position: int) -> bool:
    i = bisect_right(row.intervals, position, key=lambda one: one.start) - 1
    return i >= 0 and row.intervals[i].start == position


def _mark(above: str | None, below: str | None, compare: bool) -> str | None:
    if above is not None and below is None:
        return "missing"
    if above is None and below is not None:
        return "extra"
    return "shifted" if compare and above != below else None
