"""Cuts a file into its top-level statements without parsing it: parsing all of a file costs more than judging the
part that matters."""

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

_KIND = re.compile(
    r"(?:(?P<decorator>@)|(?P<function>(?:async\s+)?def)\s+(?P<name>\w+)|(?P<class>class)\s+(?P<owner>\w+)|(?P<word>\w+))"
)
_ATTACHED = frozenset({"else", "elif", "except", "finally"})


@dataclass(frozen=True)
class Chunk:
    """A statement of a file or class: `kind` is function, class or other; `row` counts from 1."""

    kind: str
    name: str
    row: int
    text: str
    indent: str = ""

    def parse(self) -> list[ast.stmt]:
        """Its statements, with the rows and columns that they have in the file.

        Raises:
            SyntaxError: the cut was wrong, or the file is.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes and the like are not our subject
            if not self.indent:
                return ast.parse("\n" * (self.row - 1) + self.text).body
            [owner] = ast.parse("\n" * (self.row - 2) + "class _:\n" + self.text).body
            return owner.body if isinstance(owner, ast.ClassDef) else []

    def members(self) -> list["Chunk"]:
        """The statements of a class; none if they cannot be told apart without parsing."""
        indents: list[str] = _INDENT.findall(self.text)
        try:
            return cut(self.text, self.row, min(indents, key=len))[1:] if indents else []
        except SyntaxError:
            return []


# The shallowest one is that of the class body: a nested class may come first.
_INDENT = re.compile(r"^([ \t]+)[^\s#)\]}\"']", re.MULTILINE)


@cache
def _starts(indent: str) -> "re.Pattern[str]":
    # A line that starts a statement. Closing brackets, comments and continued strings start none.
    return re.compile(rf"^{indent}(?=[^\s#)\]}}\"'])", re.MULTILINE)


def cut(text: str, row: int = 1, indent: str = "") -> list[Chunk]:
    """The statements of a file, or of a class with that indent (then the first chunk is its head).

    A chunk that does not parse was cut wrongly: parse the file instead.

    Raises:
        SyntaxError: a string seems to have no end.
    """
    found: list[Chunk] = []
    strings = _strings(text)
    inside = next(strings, None)
    begin, begin_row, kind, name = 0, row, "other", ""
    decorated = False
    position = 0
    for start in [match.start() for match in _starts(indent).finditer(text)]:
        match = _KIND.match(text, start + len(indent))
        row += text.count("\n", position, start)
        position = start
        while inside is not None and inside[1] <= start:
            inside = next(strings, None)
        if inside is not None and inside[0] < start:
            continue
        if match is None or match["word"] in _ATTACHED:
            continue
        if not decorated:
            if start > begin:
                found.append(Chunk(kind, name, begin_row, text[begin:start], indent))
            begin, begin_row = start, row
        decorated = match["decorator"] is not None
        kind = "function" if match["function"] else "class" if match["class"] else "other"
        name = match["name"] or match["owner"] or match["word"] or ""
    if len(text) > begin:
        found.append(Chunk(kind, name, begin_row, text[begin:], indent))
    return found


def _strings(text: str) -> Iterator[tuple[int, int]]:
    """Where the strings in triple quotes begin and end."""
    position = 0
    ahead = {quote: text.find(quote) for quote in ('"""', "'''")}  # where each comes next; `find` outruns any pattern
    while True:
        for quote, place in ahead.items():
            if 0 <= place < position:
                ahead[quote] = text.find(quote, position)
        quote, start = min(ahead.items(), key=lambda item: item[1] if item[1] >= 0 else len(text))
        if start < 0:
            return
        if text.find("#", max(position, text.rfind("\n", 0, start)), start) >= 0:  # in a comment
            position = text.find("\n", start)
            if position < 0:
                return
            continue
        end = text.find(quote, start + len(quote))
        if end < 0:
            raise SyntaxError("a string in triple quotes has no end")
        position = end + len(quote)
        yield start, position


def of_tree(tree: ast.Module, text: str) -> dict[Chunk, list[ast.stmt]]:
    """The same from a parsed file, with each chunk's statements: for files that cannot be cut unparsed."""
    lines = text.split("\n")
    found: dict[Chunk, list[ast.stmt]] = {}
    for statement in tree.body:
        row = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", ()))])
        part = "\n".join(lines[row - 1 : statement.end_lineno])
        kind = "other"
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            kind, name = ("class" if isinstance(statement, ast.ClassDef) else "function"), statement.name
        else:
            word = re.match(r"\w+", part)
            name = word[0] if word else ""
        found.setdefault(Chunk(kind, name, row, part), []).append(statement)
    return found
