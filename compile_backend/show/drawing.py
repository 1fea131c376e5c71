"""A mask as its block structure, in SVG: one shape for each segment, to scale."""

from collections.abc import Iterator

import torch
from shapecheck.compile_backend.boundaries import Boundaries
from shapecheck.compile_backend.show.words import markup
from torch import Tensor

MAX_BLOCKS = 256
_SIZE = 480  # units of the longer side
_LEAST = 24  # of the shorter
_MAX_KINKS = 64


def drawing(seen: Boundaries, title: str, description: str, key: str) -> tuple[str, str]:
    """The picture, queries downwards and keys to the right, and a note on what it leaves out; `""` if nothing.

    Args:
        seen: the segments.
        title: name of the picture, for those who do not see it.
        description: what it shows, in a sentence or two.
        key: distinguishes this picture's ids from those of others on the page.
    """
    longer = max(seen.rows_q, seen.rows_k, 1)
    width, height = (max(_SIZE * rows / longer, _LEAST) for rows in (seen.rows_k, seen.rows_q))
    scale = (width / max(seen.rows_k, 1), height / max(seen.rows_q, 1))
    runs = _runs(seen)
    shapes = [_shape(seen, run, scale, shade=number % 2) for number, run in enumerate(runs)]
    merged = [run for run in runs if len(run) > 1]
    note = f"{sum(map(len, merged)):,} short segments are drawn as {len(merged):,} blocks." if merged else ""
    svg = (
        f'<svg viewBox="-1 -1 {width + 2:.6g} {height + 2:.6g}" role="img" '
        f'aria-labelledby="{key}-title" aria-describedby="{key}-desc">'
        f'<title id="{key}-title">{markup(title)}</title><desc id="{key}-desc">{markup(description)}</desc>'
        f'<defs><pattern id="{key}-hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><path d="M0 0V6" class="hatch"/></pattern></defs>'
        f'<rect class="field" width="{width:.6g}" height="{height:.6g}"/>'
        f"{''.join(_padding(seen, width, height, scale, key))}{''.join(shapes)}</svg>"
    )
    return svg, note


def _runs(seen: Boundaries) -> list[list[int]]:
    """The segments, neighbours merged until they cover a visible part where there are too many to draw."""
    if len(seen.segments) <= MAX_BLOCKS:
        return [[i] for i in seen.segments]
    cu_q, cu_k = seen.cu_seqlens_q, seen.cu_seqlens_k
    # Every second run at least reaches the threshold, so there are at most MAX_BLOCKS.
    threshold = 2 * (seen.rows_q + seen.rows_k) / (MAX_BLOCKS - 2)
    runs: list[list[int]] = []
    covered = threshold
    for i in seen.segments:
        rows = cu_q[i + 1] - cu_q[i] + cu_k[i + 1] - cu_k[i]
        if covered + rows > threshold:
            runs.append([])
            covered = 0
        runs[-1].append(i)
        covered += rows
    return runs


def _shape(seen: Boundaries, run: list[int], scale: tuple[float, float], *, shade: int) -> str:
    first, last = run[0], run[-1]
    top, bottom = seen.cu_seqlens_q[first], seen.cu_seqlens_q[last + 1]
    left, right = seen.cu_seqlens_k[first], seen.cu_seqlens_k[last + 1]
    if len(run) > 1:
        points = [(left, top), (right, top), (right, bottom), (left, bottom)]
        name = f"segments {first:,} to {last:,}: {bottom - top:,} queries, {right - left:,} keys"
    else:
        points = _outline(top, seen.first[top:bottom], seen.stop[top:bottom])
        name = f"segment {first:,}: queries {top:,} to {bottom:,}, keys {left:,} to {right:,}"
    path = "L".join(f"{x * scale[0]:.6g} {y * scale[1]:.6g}" for x, y in points)
    style = f"block {'merged' if len(run) > 1 else f'shade{shade}'}"
    return f'<path class="{style}" d="M{path}Z"><title>{name}</title></path>' if points else ""


def _outline(top: int, first: Tensor, stop: Tensor) -> list[tuple[int, int]]:
    """The corners around the keys that consecutive queries see, clockwise from the top left.

    A query's edges are drawn where its row begins, so that a causal block is a triangle rather than stairs.
    """
    if len(first) == 0 or bool((first == stop).all()):
        return []
    rows = _kinks(first, stop)
    bottom = len(first)
    left = [(int(first[row]), top + row) for row in rows] + [(int(first[-1]), top + bottom)]
    right = [(int(stop[row]), top + row) for row in rows] + [(int(stop[-1]), top + bottom)]
    return right + left[::-1]


def _kinks(first: Tensor, stop: Tensor) -> list[int]:
    """Rows between which both edges run straight; evenly spaced ones where there are too many."""
    last = len(first) - 1
    bent = (first.diff(n=2) != 0) | (stop.diff(n=2) != 0)
    rows = (bent.nonzero().flatten() + 1).tolist()
    if len(rows) > _MAX_KINKS:
        rows = torch.linspace(0, last, _MAX_KINKS).long().tolist()
    return sorted({0, *rows, last})


def _padding(seen: Boundaries, width: float, height: float, scale: tuple[float, float], key: str) -> Iterator[str]:
    """Rows behind the last boundary: no query there sees a key, no key there is seen."""
    x, y = seen.cu_seqlens_k[-1] * scale[0], seen.cu_seqlens_q[-1] * scale[1]
    fill = f'fill="url(#{key}-hatch)"'
    if seen.cu_seqlens_k[-1] < seen.rows_k:
        yield f'<rect {fill} x="{x:.6g}" width="{width - x:.6g}" height="{height:.6g}"/>'
    if seen.cu_seqlens_q[-1] < seen.rows_q:
        yield f'<rect {fill} y="{y:.6g}" width="{x:.6g}" height="{height - y:.6g}"/>'
