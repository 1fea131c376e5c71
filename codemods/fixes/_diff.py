"""Unified diffs that `patch -p0` and `git apply -p0` take."""

import difflib
from collections.abc import Iterator


def unified_diff(path: str, before: str, after: str) -> str:
    """The diff of two texts of one file; empty if they are equal."""
    return "".join(_ended(difflib.unified_diff(_rows(before), _rows(after), path, path)))


def _rows(text: str) -> list[str]:
    r"""Rows with their `\n`; a carriage return belongs to its row, as in git."""
    rows = [f"{row}\n" for row in text.split("\n")]
    rows[-1] = rows[-1][:-1]
    return rows if rows[-1] else rows[:-1]


def _ended(rows: Iterator[str]) -> Iterator[str]:
    for row in rows:
        yield row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n"
