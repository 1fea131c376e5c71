"""Rows and columns to offsets and back, with the row ends that Python's tokenizer knows."""

import re
from bisect import bisect_right

from shapecheck.codemods.findings import Position

ROW_END = re.compile(r"\r\n|\r|\n")  # not str.splitlines: a form feed or U+2028 ends no row


class Rows:
    """The rows of a text; rows and columns count from 1, columns in characters."""

    def __init__(self, text: str) -> None:
        self.starts = [0, *(end.end() for end in ROW_END.finditer(text))]
        self.length = len(text)

    def offset(self, position: Position) -> int:
        """Where in the text it is; the nearest place of the text if it is outside."""
        start = self.starts[min(position.row, len(self.starts)) - 1]
        return min(start + position.column - 1, self.length)

    def position(self, offset: int) -> Position:
        """The row and column of an offset."""
        row = bisect_right(self.starts, offset)
        return Position(row, offset - self.starts[row - 1] + 1)
