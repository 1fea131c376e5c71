"""What several formats say of a place: its file, its source rows, a mark that outlives edits above it."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path, PurePath

from shapecheck.codemods.findings import Finding, Position
from shapecheck.codemods.report import Sources

_ROW_END = re.compile(r"\r\n|\r|\n")


def in_words(path: str, cell: int | None, at: Position) -> str:
    """`path:row:column`, or `path:cell n:row:column`: editors and terminals make a link of it."""
    in_cell = "" if cell is None else f"cell {cell}:"
    return f"{path}:{in_cell}{at.row}:{at.column}"


def relative(path: str) -> str:
    """The path from the current folder, with forward slashes; absolute if the file lies elsewhere."""
    here = Path.cwd()
    full = here / path
    return (full.relative_to(here) if full.is_relative_to(here) else PurePath(full)).as_posix()


def rows_of(sources: Sources) -> Callable[[str, int | None], list[str]]:
    """A function that gives the rows of the file at a path, none of a notebook or a file that cannot be read."""

    @cache
    def read(path: str) -> list[str]:
        try:
            return _ROW_END.split(sources(path))
        except (OSError, UnicodeError):
            return []

    return lambda path, cell: [] if cell else read(path)


def fingerprints(findings: Sequence[Finding], sources: Sources) -> list[str]:
    """One per finding, all different; the same again after edits elsewhere in the file."""
    rows, seen, marks = rows_of(sources), Counter[str](), []
    for finding in findings:
        row = "".join(rows(finding.path, finding.cell)[finding.span.start.row - 1 : finding.span.start.row])
        key = "\0".join([relative(finding.path), str(finding.cell), finding.code, row.strip()])
        mark = f"{key}\0{seen[key]}".encode(errors="surrogatepass")
        marks.append(hashlib.sha256(mark).hexdigest()[:32])
        seen[key] += 1
    return marks
