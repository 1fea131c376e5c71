"""A file as one text to check, be it a module or a notebook, and the way back to the file."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from shapecheck.codemods.findings import Edit, Finding, Note, Silence, Span
from shapecheck.codemods.notebook import Notebook, read_notebook
from shapecheck.codemods.source import encode, read_source, rows

_LINE = re.compile(r"\bline (\d+)")  # a place in a message


@dataclass(frozen=True)
class Lintable:
    """A file's code.

    Attributes:
        text: what is checked and fixed.
        document: what a reader of the file sees; for notebooks JSON.
        encode: the file's bytes after `text` became another one; raises SourceError.
        notebook: set for notebooks.
    """

    text: str
    document: str
    encode: Callable[[str], bytes]
    notebook: Notebook | None = None

    def place(self, finding: Finding) -> Finding:
        """A finding in `text` -> in the file: rows of a notebook count within the cell."""
        if self.notebook is None:
            return finding
        cell, _ = self.notebook.locate(finding.span.start.row)
        fix = finding.fix
        return replace(
            finding,
            span=self._span(finding.span),
            message=self._message(finding.message, cell),
            notes=tuple(self._note(note, cell) for note in finding.notes),
            fix=None if fix is None else replace(fix, edits=tuple(self._edit(edit) for edit in fix.edits)),
            cell=cell,
        )

    def place_silence(self, silence: Silence) -> Silence:
        """As `place`."""
        if self.notebook is None:
            return silence
        cell, _ = self.notebook.locate(silence.span.start.row)
        return replace(silence, span=self._span(silence.span), reason=self._message(silence.reason, cell), cell=cell)

    def line_of(self, finding: Finding) -> str:
        """The row where a placed finding starts; empty behind the last one."""
        row = finding.span.start.row
        if self.notebook is not None and finding.cell is not None:
            row = self.notebook.row_of(finding.cell, row)
        return "".join(self._rows[row - 1 : row])

    @property
    def _rows(self) -> Sequence[str]:
        return _rows(self.text)

    def _note(self, note: Note, cell: int) -> Note:
        assert self.notebook is not None
        if note.path is not None:
            return note
        there, _ = self.notebook.locate(note.span.start.row)
        message = self._message(note.message, there)
        return replace(
            note, span=self._span(note.span), message=message if there == cell else f"cell {there}: {message}"
        )

    def _message(self, message: str, cell: int) -> str:
        """A message whose lines count within their cell, which is named if it is another than `cell`."""

        def placed(found: re.Match[str]) -> str:
            assert self.notebook is not None
            there, row = self.notebook.locate(int(found[1]))
            return f"line {row}" if there == cell else f"line {row} of cell {there}"

        return _LINE.sub(placed, message)

    def _edit(self, edit: Edit) -> Edit:
        return replace(edit, span=self._span(edit.span))

    def _span(self, span: Span) -> Span:
        assert self.notebook is not None
        start, end = self.notebook.locate(span.start.row)[1], self.notebook.locate(span.end.row)[1]
        return Span(replace(span.start, row=start), replace(span.end, row=end))


def read_lintable(origin: Path | bytes, name: str) -> Lintable | None:
    """Read a file, or the bytes of one called `name`; None for a notebook without Python.

    Raises:
        SourceError: the bytes are no Python source and no notebook.
        OSError: the file cannot be read.
    """
    if not name.endswith(".ipynb"):
        source = read_source(origin)
        return Lintable(source.text, source.text, lambda text: encode(source, text))
    data = origin if isinstance(origin, bytes) else origin.read_bytes()
    notebook = read_notebook(data)
    return None if notebook is None else Lintable(notebook.text, data.decode(), notebook.encode, notebook)


@lru_cache(maxsize=1)
def _rows(text: str) -> tuple[str, ...]:
    return tuple(rows(text))
