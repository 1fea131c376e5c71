"""Draws a layout as a scaled bar. Plain ASCII by itself; rich adds colour, and is imported only for that.

The plain picture has to say everything: it is read in logs, on consoles without colour and in any encoding.
"""

import os
import shutil
import string
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from shapecheck._layout._geometry import Geometry, Span
from shapecheck._layout._parts import PADDING, size_text

_WIDTH = 80
_MAX_WIDTH = 100
_MAX_SPANS = 24  # more parts than these are elided, down to ...
_KEPT = 5  # ... so many at either end
_GAP = " ... "

Line: TypeAlias = list[tuple[str, str | None]]  # pieces of text, each with the part name that colours it

_STYLES = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta")


def scale(sizes: Sequence[int], width: int) -> list[int]:
    """How many of `width` cells each size gets: in proportion, by largest remainder, at least 1 unless it is 0.

    The cells add up to `width`, unless there are more sizes than cells (then each gets 1) or nothing but zeros.
    """
    cells = [int(size > 0) for size in sizes]
    open_ = [i for i, size in enumerate(sizes) if size > 0]
    # A size below one cell is settled with its 1; what that takes from the others may push more of them below.
    while open_ and width > sum(cells):
        total = sum(sizes[i] for i in open_)
        room = width - sum(cells) + len(open_)
        large = [i for i in open_ if sizes[i] * room >= total]
        if len(large) == len(open_):
            for i in open_:
                cells[i] = sizes[i] * room // total
            by_remainder = sorted(open_, key=lambda i: (-(sizes[i] * room % total), i))
            for i in by_remainder[: room - sum(cells[i] for i in open_)]:
                cells[i] += 1
            break
        open_ = large
    return cells


def letters(names: Iterable[str]) -> dict[str, str]:
    """One distinct character for each name: a letter of it if one is free, else any letter or digit, at last `#`."""
    chosen: dict[str, str] = {}
    free = dict.fromkeys(string.ascii_lowercase + string.ascii_uppercase + string.digits)
    for name in dict.fromkeys(names):
        own = name.lower() + name.upper()
        chosen[name] = next((c for c in [*own, *string.digits, *free] if c in free), "#")
        free.pop(chosen[name], None)
    return chosen


def picture(geometry: Geometry) -> str:
    """The picture for stdout as it is now: coloured on a terminal, plain when piped."""
    if not (sys.stdout.isatty() or os.environ.get("FORCE_COLOR")):
        return plain(geometry)
    width = min(shutil.get_terminal_size((_WIDTH, 24)).columns, _MAX_WIDTH) if sys.stdout.isatty() else _WIDTH
    try:
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        return plain(geometry, width)
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    if not (console.is_terminal and console.color_system):
        return plain(geometry, width)
    styles: dict[str | None, str] = {name: _STYLES[i % len(_STYLES)] for i, name in enumerate(geometry.names)}
    styles |= {None: "", PADDING: "bright_black"}
    lines = [Text.assemble(*((text, styles[name]) for text, name in line)) for line in _lines(geometry, width)]
    with console.capture() as capture:
        console.print(Text("\n").join(lines))
    return capture.get().rstrip("\n")


def plain(geometry: Geometry, width: int = _WIDTH) -> str:
    """The picture in ASCII, at most `width` columns wide where the names allow it, of bounded height."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in _lines(geometry, width))


def _lines(geometry: Geometry, width: int) -> list[Line]:
    spans = geometry.spans()
    symbols = {**letters(geometry.names), PADDING: "."}
    head, tail = shown_spans(spans)
    ruler, bar = _bar(geometry, head, tail, symbols, max(width, 20))
    lines: list[Line] = [[(title(geometry), None)], ruler, bar, *_legend(geometry, [*head, *tail], symbols)]
    if tail:
        hidden, rows = len(spans) - len(head) - len(tail), tail[0].start - head[-1].stop
        lines.insert(3 + len(head), [(f"  ... {hidden:,} more, {rows:,} rows", None)])
    return lines


def shown_spans(spans: list[Span]) -> tuple[list[Span], list[Span]]:
    """The spans drawn from the start and from the end; the padding is always among them."""
    if len(spans) <= _MAX_SPANS:
        return spans, []
    return spans[:_KEPT], spans[-_KEPT - (spans[-1].sample is None) :]


def title(geometry: Geometry) -> str:
    pad = geometry.seq_len - geometry.used
    segments = len(geometry.cu_seqlens) - 1
    samples = len(geometry.samples)
    return (
        f"{geometry.seq_len:,} rows = {geometry.used:,} used + {pad:,} padding (align {geometry.align}), "
        f"{samples:,} sample{'s' * (samples != 1)}, {segments:,} segment{'s' * (segments != 1)}, "
        f"longest {geometry.max_seqlen:,}"
    )


def _bar(
    geometry: Geometry, head: list[Span], tail: list[Span], symbols: dict[str, str], width: int
) -> tuple[Line, Line]:
    """The ruler and the bar: cells in proportion, and a `|` with its row number at each boundary."""
    shown = [*head, *tail]
    marks = _marks(geometry, shown)
    # Where the gap hides whole samples, the boundary after it is drawn too.
    reopened = [tail[0].start] if tail and tail[0].sample != head[-1].sample else []
    taken = sum(map(len, marks)) + len(reopened) + len(_GAP) * bool(tail)
    cells = scale([span.stop - span.start for span in shown], max(width - taken, 1))
    bar: Line = []
    numbers: list[tuple[int, int]] = []  # (column, row)
    column = 0

    def put(text: str, name: str | None, row: int | None = None) -> None:
        nonlocal column
        if row is not None:
            numbers.append((column, row))
        bar.append((text, name))
        column += len(text)

    for i, (span, count) in enumerate(zip(shown, cells, strict=True)):
        for row in marks[i]:
            put("|", None, row)
        if tail and i == len(head):
            put(_GAP, None)
            for row in reopened:
                put("|", None, row)
        put(symbols[span.name] * count, span.name)
    for row in marks[-1]:
        put("|", None, row)
    return [(_ruler(numbers), None)], bar


def _marks(geometry: Geometry, shown: list[Span]) -> list[list[int]]:
    """The boundaries before each shown span, then those after the last: one list more than there are spans.

    Each boundary has a mark of its own, so that an empty segment shows as `||`.
    """
    marks = [[0]]
    for before, span in pairwise(shown):
        marks.append([before.stop] if span.sample != before.sample else [])
    closing = (shown[-1].sample is not None) + (geometry.padding == "segment")
    return [*marks, [shown[-1].stop] * closing]


def _ruler(numbers: list[tuple[int, int]]) -> str:
    """Row numbers above their columns. From the right, each pushed left as far as its neighbour needs, or dropped."""
    placed: list[tuple[int, str]] = []
    limit = numbers[-1][0] + 1
    known = {numbers[0][1]}  # the boundaries of an empty segment share a number
    for column, row in reversed(numbers[1:]):
        text = str(row)
        start = min(column, limit - len(text))
        if row not in known and start > len(str(numbers[0][1])) and column - start <= 2 * len(text):
            known.add(row)
            placed.append((start, text))
            limit = start - 1
    line = str(numbers[0][1])
    for start, text in reversed(placed):
        line = line.ljust(start) + text
    return line


def _legend(geometry: Geometry, shown: list[Span], symbols: dict[str, str]) -> list[Line]:
    """One aligned line per span: letter and name, kind if it differs, grid, rows, row range, tag."""
    table = [
        (
            f"{symbols[span.name]} {_ascii(span.name)}",
            f"({_ascii(span.kind)})" if span.kind != span.name else "",
            size_text(span.size) if isinstance(span.size, tuple) else "",
            f"{span.stop - span.start:,} row{'s' * (span.stop - span.start != 1)}",
            f"[{span.start}, {span.stop})",
            f"tag {span.tag}" if geometry.tagged else "",
        )
        for span in shown
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines: list[Line] = []
    for span, cells in zip(shown, table, strict=True):
        aligned = [
            cell.rjust(width) if column in (2, 3) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
            if width
        ]
        text = "  ".join(aligned)
        lines.append([("  ", None), (text[0], span.name), (text[1:], None)])
    return lines


def _ascii(name: str) -> str:
    """`name` without anything that a terminal might act on or an encoding lacks."""
    return ascii(name)[1:-1]
