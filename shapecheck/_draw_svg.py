"""Draws a layout as an SVG: the bar of `_draw`, with every part's description as a tooltip."""

from html import escape

from shapecheck._draw import scale, shown_spans, title
from shapecheck._layout._geometry import Geometry, Span
from shapecheck._layout._parts import PADDING, size_text

_WIDTH = 760  # of the bar, in pixels
_GAP = 24  # of the place where parts are left out
_MARGIN = 10
_TOP, _HEIGHT = 40, 36
_DIGIT = 7  # width of a character of the labels, estimated: a browser's fonts are unknown
_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#edc948", "#e15759", "#9c755f")
_GREY = "#c8c8c8"


def svg(geometry: Geometry) -> str:
    """An SVG element of bounded size: parts in proportion, segment boundaries with their rows, and the padding."""
    head, tail = shown_spans(geometry.spans())
    spans = [*head, *tail]
    widths = scale([span.stop - span.start for span in spans], _WIDTH - _GAP * bool(tail))
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(geometry.names)} | {PADDING: _GREY}
    drawn: list[str] = []
    placed: list[tuple[Span, float, int]] = []
    x = float(_MARGIN)
    for i, (span, width) in enumerate(zip(spans, widths, strict=True)):
        if tail and i == len(head):
            drawn.append(_text(x + _GAP / 2, _TOP + _HEIGHT / 2 + 4, "..."))
            x += _GAP
        drawn.append(_rectangle(span, x, width, colours[span.name]))
        placed.append((span, x, width))
        x += width
    drawn += _boundaries(geometry, placed)
    drawn.append(_text(_MARGIN, 16, title(geometry), anchor="start"))
    size = f'width="{_WIDTH + 2 * _MARGIN}" height="{_TOP + _HEIGHT + _MARGIN}"'
    style = 'font-family="monospace" font-size="11" role="img"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(drawn)}</svg>'


def _rectangle(span: Span, x: float, width: int, colour: str) -> str:
    rows = span.stop - span.start
    grid = f" {size_text(span.size)}" if isinstance(span.size, tuple) else ""
    kind = f" ({span.kind})" if span.kind != span.name else ""
    tag = "" if span.tag is None else f", tag {span.tag}"
    tooltip = _safe(f"{span.name}{kind}{grid}: {rows:,} rows [{span.start}, {span.stop}){tag}")
    label = ""
    if width >= _DIGIT * (len(span.name) + 1):
        label = _text(x + width / 2, _TOP + _HEIGHT / 2 + 4, span.name)
    box = f'<rect x="{x:g}" y="{_TOP}" width="{width}" height="{_HEIGHT}" fill="{colour}"/>'
    return f"<g><title>{tooltip}</title>{box}{label}</g>"


def _boundaries(geometry: Geometry, placed: list[tuple[Span, float, int]]) -> list[str]:
    """A line for each segment boundary among the drawn rows, with its row where there is room."""
    # One line per pixel, so that 100,000 segments do not make 100,000 lines.
    rows: dict[float, int] = {}
    boundaries = sorted(set(geometry.cu_seqlens))
    at = 0
    for span, x, width in placed:
        while at < len(boundaries) and boundaries[at] < span.start:
            at += 1  # left out with its part
        while at < len(boundaries) and boundaries[at] <= span.stop:
            row = boundaries[at]
            share = (row - span.start) / max(span.stop - span.start, 1)
            rows.setdefault(round(x + width * share), row)
            at += 1
    drawn, free = [], 0.0
    for x, row in rows.items():
        drawn.append(f'<path d="M{x:g} {_TOP - 4}v{_HEIGHT + 8}" stroke="currentColor"/>')
        half = _DIGIT * len(str(row)) / 2
        if x - half >= free or not free:
            drawn.append(_text(max(x, half), _TOP - 8, str(row)))
            free = x + half + _DIGIT
    return drawn


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="currentColor">{_safe(text)}</text>'


def _safe(text: str) -> str:
    """`text` without anything that XML acts on or cannot hold."""
    return escape("".join(c if c.isprintable() else ascii(c)[1:-1] for c in text))
