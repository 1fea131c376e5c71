"""Jupyter notebooks (format 4): the Python cells as one module, and back into the cells.

Each cell follows a comment line that no cell holds, by which the text is cut into cells again after a fix. IPython's
magics become lines that parse and carry a comment by which they are put back.
"""

import json
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any

from shapecheck.codemods.source import SourceError, rows

# `%time f(x)` runs Python; all other cell magics hand the cell to another language or process.
_PYTHON_CELL_MAGICS = frozenset({"capture", "prun", "time", "timeit"})
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_MAGIC = re.compile(r"(?P<indent>[ \t]*)(?:[%!?]|[^#'\"\n]*\?{1,2}[ \t]*$)")
_ASSIGNED = re.compile(r"(?P<target>[ \t]*[A-Za-z_][\w.\[\], ]*=[ \t]*)[%!]")


@dataclass(frozen=True, slots=True)
class _Cell:
    number: int  # from 1, among all cells of the notebook
    row: int  # row of its marker in the joined text
    source: str
    span: tuple[int, int]  # of the JSON value of `source` in the notebook's text


@dataclass(frozen=True)
class Notebook:
    """A notebook's Python cells.

    Attributes:
        text: the cells joined into one module.
    """

    text: str
    _document: str
    _cells: tuple[_Cell, ...]
    _marker: str
    _magics: tuple[str, ...]

    def locate(self, row: int) -> tuple[int, int]:
        """Row of the joined text -> cell, row in the cell, both from 1."""
        cell = next((cell for cell in reversed(self._cells) if cell.row <= row), self._cells[0])
        return cell.number, max(row - cell.row, 1)

    def row_of(self, cell: int, row: int) -> int:
        """The reverse of `locate`."""
        return next(found.row for found in self._cells if found.number == cell) + row

    def encode(self, text: str) -> bytes:
        """The notebook's bytes after the joined text became `text`. Only the touched cells' `source` changes.

        Raises:
            SourceError: the markers of cells or magics got lost.
        """
        pieces = re.split(rf"^{re.escape(self._marker)} cell\r?\n", text, flags=re.MULTILINE)[1:]
        if len(pieces) != len(self._cells):
            raise SourceError("the fixed text cannot be cut into cells again")
        restored = re.compile(rf"[^\r\n]*{re.escape(self._marker)} (\d+)(?![^\r\n])")
        document, end = [], 0
        for cell, piece in zip(self._cells, pieces, strict=True):
            new = restored.sub(lambda found: self._magics[int(found[1])], piece)
            if not cell.source.endswith("\n"):
                new = new.removesuffix("\n")
            if new != cell.source:
                document += [self._document[end : cell.span[0]], self._value(new, cell.span)]
                end = cell.span[1]
        return "".join([*document, self._document[end:]]).encode()

    def _value(self, source: str, span: tuple[int, int]) -> str:
        """The JSON of a cell's source, written as the notebook writes it."""
        old = self._document[slice(*span)]
        ascii_only = self._document.isascii() and "\\u" in self._document
        if not old.startswith("["):
            return json.dumps(source, ensure_ascii=ascii_only)
        items = [json.dumps(row, ensure_ascii=ascii_only) for row in rows(source)]
        opening = re.match(r"\[\s*", old)
        closing = re.search(r"\s*\]$", old)
        assert opening is not None
        assert closing is not None
        spaced = "\n" not in old and self._document[span[0] - 1] == " "
        separator = ", " if spaced else "," + opening[0][1:]
        return opening[0] + separator.join(items) + closing[0]


def read_notebook(data: bytes) -> Notebook | None:
    """The Python cells of a notebook; None if its language is another, or there is no code.

    Raises:
        SourceError: not a notebook of format 4.
    """
    try:
        document = data.decode("utf-8")
        content = json.loads(document)
    except ValueError as error:
        raise SourceError(f"not a notebook: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        if isinstance(content, dict) and content.get("nbformat") in {1, 2, 3}:
            raise SourceError("a notebook of format 3 or older: convert it with `jupyter nbconvert --to notebook`")
        raise SourceError('not a notebook: there is no list "cells"')
    if _language(content) != "python":
        return None
    found = list(_code_cells(content["cells"], document))
    return _join(document, found) if found else None


def _language(content: dict[str, Any]) -> str:
    metadata = content.get("metadata")
    for key, field in (("kernelspec", "language"), ("language_info", "name")):
        entry = metadata.get(key) if isinstance(metadata, dict) else None
        if isinstance(entry, dict) and isinstance(entry.get(field), str):
            return str(entry[field]).lower()
    return "python"


def _code_cells(cells: list[Any], document: str) -> Iterator[tuple[int, str, tuple[int, int]]]:
    """Number, source and place of the source in the document."""
    places = _places(document)
    for number, (cell, place) in enumerate(zip(cells, places, strict=True), 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source")
        if isinstance(source, list) and all(isinstance(row, str) for row in source):
            source = "".join(source)
        if not isinstance(source, str) or place is None:
            raise SourceError(f'cell {number} has no "source" of text')
        yield number, source, place


def _join(document: str, cells: list[tuple[int, str, tuple[int, int]]]) -> Notebook:
    marker = "# ---"
    while any(marker in source for _, source, _ in cells):
        marker += "-"
    magics: list[str] = []
    text: list[str] = []
    placed = []
    row = 1
    for number, source, span in cells:
        placed.append(_Cell(number, row, source, span))
        code = _without_magics(rows(source), marker, magics)
        if code and not code[-1].endswith("\n"):
            code[-1] += "\n"
        text += [f"{marker} cell\n", *code]
        row += 1 + len(code)
    return Notebook("".join(text), document, tuple(placed), marker, tuple(magics))


def _without_magics(source: list[str], marker: str, magics: list[str]) -> list[str]:
    """The rows with each magic replaced by one that parses; appends the originals to `magics`."""

    def placeholder(row: str, code: str) -> str:
        body = row.rstrip("\r\n")
        magics.append(body)
        return f"{code}{marker} {len(magics) - 1}{row[len(body) :]}"

    first = next((at for at, row in enumerate(source) if row.strip()), None)
    cell_magic = None if first is None else _CELL_MAGIC.match(source[first])
    if first is not None and cell_magic and cell_magic[1] not in _PYTHON_CELL_MAGICS:
        return [placeholder(row, "") for row in source]
    done: list[str] = []
    continued: str | None = None  # indentation of a magic that goes on in this row
    for row in source:
        body = row.rstrip("\r\n")
        if continued is not None:
            indent: str | None = continued
        else:
            magic = _MAGIC.match(body)
            indent = magic["indent"] if magic and _starts_statement(done) else None
        assigned = _ASSIGNED.match(body) if indent is None else None
        if indent is not None:
            done.append(placeholder(row, f"{indent}pass  "))
            continued = indent if body.endswith("\\") else None
        elif assigned and _starts_statement(done):
            done.append(placeholder(row, f"{assigned['target']}None  "))
            continued = re.match(r"[ \t]*", body)[0] if body.endswith("\\") else None  # type: ignore[index]
        else:
            done.append(row)
    return done


def _starts_statement(before: list[str]) -> bool:
    """Whether a row after these is no continuation of a string, bracket or backslash."""
    try:
        for _ in tokenize.generate_tokens(StringIO("".join(before)).readline):
            pass
    except tokenize.TokenError:
        return False
    except SyntaxError:  # odd dedents say nothing about continuation
        return True
    return True


def _places(document: str) -> list[tuple[int, int] | None]:
    """For each cell the span of its `source` value in the document, which is known to parse."""
    cells = _members(document, _skip(document, 0)).get("cells")
    if cells is None:
        return []
    found: list[tuple[int, int] | None] = []
    for start, _ in _items(document, cells[0]):
        found.append(_members(document, start).get("source") if document[start] == "{" else None)
    return found


_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def _skip(document: str, at: int) -> int:
    match = _SPACE.match(document, at)
    assert match is not None
    return match.end()


def _members(document: str, at: int) -> dict[str, tuple[int, int]]:
    """The spans of the values of the object that starts at `at`."""
    found = {}
    at = _skip(document, at + 1)
    while document[at] != "}":
        key, at = _DECODER.raw_decode(document, at)
        start = _skip(document, _skip(document, at) + 1)
        _, end = _DECODER.raw_decode(document, start)
        found[key] = (start, end)
        at = _skip(document, end)
        if document[at] == ",":
            at = _skip(document, at + 1)
    return found


def _items(document: str, at: int) -> Iterator[tuple[int, int]]:
    """The spans of the items of the array that starts at `at`."""
    at = _skip(document, at + 1)
    while document[at] != "]":
        _, end = _DECODER.raw_decode(document, at)
        yield at, end
        at = _skip(document, end)
        if document[at] == ",":
            at = _skip(document, at + 1)
