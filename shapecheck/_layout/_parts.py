"""`Part`: one contiguous stretch of rows of a sample. Free of torch."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex, TypeAlias

from shapecheck._errors import LayoutError

Size: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
"""Rows, or a grid of any rank such as `(t, h, w)` whose product is the rows."""

PADDING = "padding"
"""The name under which drawings and errors show the rows that fill a layout up. No part may carry it."""


def integer(value: Any, what: str) -> int:
    """`value` as an int, numpy integers included. `what` opens the `LayoutError` for anything else, bools too."""
    if type(value) is int:
        return value
    try:
        # A bool is an int to Python; as a size or a tag it is a mistake (`mask.any()` for `mask.sum()`).
        if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise LayoutError(f"{what} is {value!r} ({type(value).__name__}), expected an integer") from None


def size_text(size: int | tuple[int, ...]) -> str:
    """`77` or `16x22x40`."""
    return str(size) if isinstance(size, int) else "x".join(map(str, size))


@dataclass(frozen=True, slots=True, init=False)
class Part:
    """A contiguous stretch of rows of one sample: its text, its video, a reference image.

    Attributes:
        name: how `cat`, `split` and `part_index` address it. May repeat, within a sample and across samples.
        size: rows, or a grid of any rank such as `(t, h, w)`. Zero rows are fine.
        kind: what sort of rows these are, `name` by default; `ref_0` and `ref_1` may both be of kind `video`.
        tag: its entry in `token_tags`; None takes it from the `tags` given to `PackedLayout.pack`.
        rows: the product of the grid.

    Raises:
        LayoutError: the size is negative or no integer, or the name is unusable.
    """

    name: str
    size: int | tuple[int, ...]
    kind: str
    tag: int | None
    rows: int = field(init=False, repr=False, compare=False)

    def __init__(self, name: str, size: Size, kind: str | None = None, tag: int | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise LayoutError(f"a part is named {name!r}, expected a non-empty string")
        if name == PADDING:
            raise LayoutError(
                "a part is named 'padding', the name of the rows that a layout appends by itself\n"
                "  fix: leave it out and pass align= or seq_len=, or choose another name"
            )
        if kind is not None and (not isinstance(kind, str) or not kind):
            raise LayoutError(f"part {name!r}: kind is {kind!r}, expected a non-empty string or None")
        checked = _size(name, size)
        put = object.__setattr__  # the class is frozen
        put(self, "name", name)
        put(self, "size", checked)
        put(self, "kind", kind or name)
        put(self, "tag", None if tag is None else tag_value(tag, f"part {name!r}: tag"))
        put(self, "rows", checked if isinstance(checked, int) else math.prod(checked))


def tag_value(value: Any, what: str) -> int:
    """`value` as a tag, an integer that fits int64."""
    tag = integer(value, what)
    if not -(2**63) <= tag < 2**63:
        raise LayoutError(f"{what} is {tag}, which does not fit int64")
    return tag


def _size(name: str, size: Any) -> int | tuple[int, ...]:
    if type(size) is int and size >= 0:  # no message to prepare: layouts may have 100,000 parts
        return size
    if isinstance(size, (tuple, list)):
        if not size:
            raise LayoutError(f"part {name!r}: the grid has no axes, expected rows or a grid such as (t, h, w)")
        return tuple(
            [
                n if type(n) is int and n >= 0 else _rows(name, n, f"axis {axis} of the grid {tuple(size)}")
                for axis, n in enumerate(size)
            ]
        )
    return _rows(name, size, "the size")


def _rows(name: str, value: Any, where: str) -> int:
    rows = integer(value, f"part {name!r}: {where}")
    if rows < 0:
        raise LayoutError(f"part {name!r}: {where} is {rows}, expected 0 or more rows")
    return rows
