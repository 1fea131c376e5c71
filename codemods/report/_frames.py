"""Source frames: rows of a file, with marks under the places that a finding is about."""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from shapecheck.codemods.findings import Span

_TAB = 4
_WIDTH = 160  # characters of a row that are shown
_NEAR = 4  # rows between two marks that are still shown

Paint = Callable[[str, bool], str]  # the second argument: whether it belongs to the fault itself


@dataclass(frozen=True, slots=True)
class Mark:
    """What is underlined. The fault itself gets carets, other places get dashes and a message."""

    span: Span
    message: str
    is_fault: bool


def frame(rows: Sequence[str], marks: Sequence[Mark], paint: Paint) -> list[str]:
    """The lines of a frame; a mark of several rows is drawn under its first."""
    marks = sorted((mark for mark in marks if mark.span.start.row <= len(rows)), key=lambda mark: mark.span)
    if not marks:
        return []
    gutter = len(str(marks[-1].span.start.row))
    lines = [f" {'':{gutter}} |"]
    shown = None
    for number, of_row in groupby(marks, key=lambda mark: mark.span.start.row):
        if shown is not None:
            between = range(shown + 1, number)
            if len(between) > _NEAR:
                lines.append(f" {'...':{gutter}}")
            else:
                lines += [_source(line, rows[line - 1], 0, gutter) for line in between]
        shown = number
        in_row = list(of_row)
        row = rows[number - 1]
        skipped = _skipped(row, min(mark.span.start.column for mark in in_row))
        lines.append(_source(number, row, skipped, gutter))
        lines += [f" {'':{gutter}} | {_underline(row, mark, skipped, paint)}".rstrip() for mark in in_row]
    return [*lines, f" {'':{gutter}} |"]


def near(span: Span, other: Span) -> bool:
    """Whether one frame shows both places well."""
    return abs(span.start.row - other.start.row) <= _NEAR + 1


def printable(text: str) -> str:
    """The text in one row without characters that move the cursor, change colours or reverse what follows."""
    return "".join(" " if char in "\t\r\n\f" else "\ufffd" if _hidden(char) else char for char in text)


def _source(number: int, row: str, skipped: int, gutter: int) -> str:
    return f" {number:{gutter}} | {'…' * bool(skipped)}{_shown(row, skipped)}".rstrip()


def _skipped(row: str, column: int) -> int:
    """How many characters of a long row are left out before the first mark."""
    return max(0, column - 1 - _WIDTH // 4) if len(row) > _WIDTH else 0


def _shown(row: str, skipped: int) -> str:
    part = row[skipped : skipped + _WIDTH]
    return printable(part.replace("\t", " " * _TAB)) + ("…" if skipped + _WIDTH < len(row) else "")


def _underline(row: str, mark: Mark, skipped: int, paint: Paint) -> str:
    start = mark.span.start.column - 1
    end = mark.span.end.column - 1 if mark.span.end.row == mark.span.start.row else len(row)
    end = min(max(end, start), skipped + _WIDTH)
    sign = "^" if mark.is_fault else "-"
    line = sign * max(1, _columns(row[start:end]))
    message = f" {printable(mark.message)}" if mark.message else ""
    return " " * (bool(skipped) + _columns(row[skipped:start])) + paint(line + message, mark.is_fault)


def _columns(text: str) -> int:
    """How many columns of a terminal the text takes as `_shown` prints it."""
    return sum(_TAB if char == "\t" else _char_columns(char) for char in text)


def _char_columns(char: str) -> int:
    if _hidden(char):
        return 1  # printed as a replacement character
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _hidden(char: str) -> bool:
    return unicodedata.category(char) in {"Cc", "Cf", "Cs"}
