"""Where a new item of a display, or a new argument of a call, goes in the text, in the style of its siblings."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from shapecheck.codemods.fixes._rows import ROW_END

_REST_OF_ROW = re.compile(r"[ \t\f]*(?:#[^\r\n]*)?(?=[\r\n])")
_COMMA = re.compile(r"(?>[ \t\f\r\n]|\\\r?\n|#[^\r\n]*+)*+,")  # possessive: a comma in a comment is none


@dataclass(frozen=True, slots=True)
class Patch:
    """The characters from offset `start` up to `end` become `code`."""

    start: int
    end: int
    code: str


@dataclass(frozen=True, slots=True)
class Series:
    """Items separated by commas.

    Attributes:
        text: what the offsets count in.
        start: right after the opening bracket.
        items: start and end of each, with its own parentheses.
        end: right before the closing bracket.
        is_tuple: whether one item alone needs a comma.
    """

    text: str
    start: int
    items: tuple[tuple[int, int], ...]
    end: int
    is_tuple: bool

    def insert(self, index: int, codes: Sequence[str]) -> list[Patch]:
        """The patches that make `codes` the items from `index` on."""
        if not self.items:
            return [
                Patch(self.start, self.start, ", ".join(codes) + ("," if self.is_tuple and len(codes) == 1 else ""))
            ]
        if index < len(self.items):
            return self._insert_before(index, codes)
        return self._append(codes)

    def _insert_before(self, index: int, codes: Sequence[str]) -> list[Patch]:
        before = self.start if index == 0 else self._after_comma(index - 1)
        at = self.items[index][0]
        assert before is not None  # a comma follows every item but the last
        if own_row := self._new_rows(before, at, at, codes):
            return [own_row]
        gap = self._gap(max(index, 1))
        return [Patch(at, at, "".join(code + gap for code in codes))]

    def _append(self, codes: Sequence[str]) -> list[Patch]:
        last_start, last_end = self.items[-1]
        comma = self._after_comma(len(self.items) - 1)
        if comma is not None:
            if own_row := self._new_rows(comma, self.end, last_start, codes):
                return [own_row]
            inline = "".join(f" {code}," for code in codes)
            only_for_the_tuple = self.is_tuple and len(self.items) == 1
            return [Patch(comma, comma, inline.removesuffix(",") if only_for_the_tuple else inline)]
        if own_row := self._new_rows(last_end, self.end, last_start, codes):
            return [Patch(last_end, last_end, ","), Patch(own_row.start, own_row.end, own_row.code.removesuffix(","))]
        gap = self._gap(len(self.items) - 1)
        return [Patch(last_end, last_end, "".join(gap + code for code in codes))]

    def _new_rows(self, after: int, stop: int, sibling: int, codes: Sequence[str]) -> Patch | None:
        """Rows of their own for the codes, below the row of `after`; None unless the siblings have theirs."""
        rest = _REST_OF_ROW.match(self.text, after, stop)
        row = max(self.text.rfind("\n", 0, sibling), self.text.rfind("\r", 0, sibling)) + 1
        indent = self.text[row:sibling]
        if rest is None or indent.strip(" \t\f"):
            return None
        row_end = ROW_END.match(self.text, rest.end())
        assert row_end is not None
        return Patch(rest.end(), rest.end(), "".join(f"{row_end.group()}{indent}{code}," for code in codes))

    def _gap(self, index: int) -> str:
        """What separates an item from the one before it, as far as a new item can have the same."""
        if not 0 < index < len(self.items):
            return ", "
        gap = self.text[self.items[index - 1][1] : self.items[index][0]]
        return ", " if "#" in gap else gap

    def _after_comma(self, index: int) -> int | None:
        stop = self.items[index + 1][0] if index + 1 < len(self.items) else self.end
        comma = _COMMA.match(self.text, self.items[index][1], stop)
        return None if comma is None else comma.end()
