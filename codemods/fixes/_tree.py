"""A top-level statement as libcst reads it, with the extent of every expression as offsets."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shapecheck.codemods.findings import Position
from shapecheck.codemods.fixes._layout import Series
from shapecheck.codemods.fixes._rows import Rows

if TYPE_CHECKING:
    from libcst import BaseExpression, Call, CSTNode
    from libcst.metadata import CodeRange

_PARENTHESIS = re.compile(r"(?>[ \t\f\r\n]|\\\r?\n|#[^\r\n]*+)*+\(")


class UnreadableError(Exception):
    """libcst cannot read the text, or reads other text."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Start and end of a node: `inner` without, `outer` with the parentheses around it."""

    inner: tuple[int, int]
    outer: tuple[int, int]


class Tree:
    """The nodes of whole rows of source, at offsets within `text`."""

    def __init__(self, text: str) -> None:
        import libcst as cst
        from libcst.metadata import MetadataWrapper, PositionProvider, WhitespaceInclusivePositionProvider

        try:
            module = cst.parse_module(text)
        except cst.ParserSyntaxError as error:
            raise UnreadableError from error
        if module.code != text:
            raise UnreadableError
        wrapper = MetadataWrapper(module, unsafe_skip_copy=True)  # straight from the parser no node occurs twice
        self.text = text
        self._rows = Rows(text)
        self._inner = wrapper.resolve(PositionProvider)
        self._outer = wrapper.resolve(WhitespaceInclusivePositionProvider)

    def find(self, start: int, end: int) -> "BaseExpression | None":
        """The expression with exactly this extent, with or without its parentheses."""
        from libcst import BaseExpression

        parenthesized = None
        for node in self._inner:
            if isinstance(node, BaseExpression):
                extent = self.extent(node)
                if extent.inner == (start, end):
                    return node
                if extent.outer == (start, end):
                    parenthesized = node
        return parenthesized

    def extent(self, node: "CSTNode") -> Extent:
        """Where a node of this tree is."""
        return Extent(self._offsets(self._inner[node]), self._offsets(self._outer[node]))

    def display(self, node: "CSTNode") -> Series | None:
        """The items of a list, tuple or set display, or of a call whose one argument is a display."""
        from libcst import Call, List, Set, Tuple

        if isinstance(node, Call) and len(node.args) == 1 and not isinstance(node.args[0].value, Call):
            return self.display(node.args[0].value)
        if not isinstance(node, List | Set | Tuple):
            return None
        start, end = self.extent(node).inner
        if not isinstance(node, Tuple):
            start, end = start + 1, end - 1
        elif node.lpar:
            start = self.extent(node.lpar[-1]).outer[0] + 1
            end = self.extent(node.rpar[0]).outer[1] - 1
        items = tuple(self.extent(element).inner for element in node.elements)
        return Series(self.text, start, items, end, isinstance(node, Tuple))

    def arguments(self, call: "Call") -> Series:
        """The arguments of a call."""
        parenthesis = _PARENTHESIS.match(self.text, self.extent(call.func).outer[1])
        assert parenthesis is not None
        items = tuple(self.extent(argument).inner for argument in call.args)
        return Series(self.text, parenthesis.end(), items, self.extent(call).inner[1] - 1, is_tuple=False)

    def _offsets(self, found: "CodeRange") -> tuple[int, int]:
        return (
            self._rows.offset(Position(found.start.line, found.start.column + 1)),
            self._rows.offset(Position(found.end.line, found.end.column + 1)),
        )
