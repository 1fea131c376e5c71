"""Comments that silence findings.

- `# noqa` and `# shapecheck: ignore`: every finding of the logical line.
- `# noqa: VL103, E501` and `# shapecheck: ignore[VL103]`: those with these codes; brackets take names of rules too.
- `# shapecheck: ignore-file` and `# shapecheck: ignore-file[VL103]`, on a row of their own: those of the file.

A logical line is a statement as Python's tokenizer sees it: from its first row to the row where its last bracket
closes; of a compound statement the header only. A comment on any of its rows holds for every finding that starts on one
of them.
Codes of other tools are left alone.
"""

import re
import tokenize
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from io import StringIO

from shapecheck.codemods.findings import Finding, Position, Span
from shapecheck.codemods.selection import SYNTAX, UNUSED
from shapecheck.codemods.source import rows

_TRACE = re.compile(r"noqa|shapecheck\s*:", re.IGNORECASE)
_CODES = r"[A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*"
_NOQA = re.compile(rf"#\s*noqa\b(?!-)(?:\s*:\s*(?P<codes>{_CODES})(?![\w-]))?", re.IGNORECASE)
_OWN = re.compile(
    r"#\s*shapecheck\s*:\s*ignore(?P<file>-file)?(?![\w-])(?:\s*\[(?P<codes>[^\]\n]*)\]|(?!\s*\[))", re.IGNORECASE
)
_END = 10**9  # behind every file's last row
_OUTSIDE = frozenset(
    {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING}
)


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment.

    Attributes:
        span: the comment's place.
        first: first row for which it holds.
        last: last row for which it holds.
        items: upper-case codes and lower-case names; None for all findings.
    """

    span: Span
    first: int
    last: int
    items: tuple[str, ...] | None

    def covers(self, finding: Finding) -> bool:
        """Whether it silences this finding. Finding VL901 must be named."""
        if not self.first <= finding.span.start.row <= self.last:
            return False
        if self.items is None:
            return finding.code != UNUSED[0]
        return finding.code in self.items or finding.name in self.items


def suppressions(text: str) -> tuple[Suppression, ...]:
    """The comments of a module that silence findings, by place; up to the fault if the text is no Python."""
    if not _TRACE.search(text):
        return ()
    return tuple(found for line in _logical_lines(text) for token in line.comments for found in _read(token, line))


def suppress(
    found: Sequence[Suppression], findings: Sequence[Finding], path: str, *, report_unused: bool, off: Collection[str]
) -> tuple[Finding, ...]:
    """The findings that remain, and VL901 for comments that name codes in vain.

    Args:
        found: the file's comments.
        findings: what the rules report.
        path: of the file, for VL901.
        report_unused: whether to report VL901.
        off: codes and names of rules that did not run, of which nothing can be said.
    """
    if not found:
        return tuple(findings)
    kept = [finding for finding in findings if not any(comment.covers(finding) for comment in found)]
    if report_unused:
        unused = [item for comment in found if (item := _unused(comment, findings, path, off))]
        kept += [finding for finding in unused if not any(comment.covers(finding) for comment in found)]
    return tuple(sorted(kept, key=Finding.sort_key))


def protected_rows(found: Sequence[Suppression]) -> frozenset[int]:
    """The rows that no fix may touch, because a comment there speaks of this linter."""
    return frozenset(
        row
        for comment in found
        if comment.last < _END and (comment.items is None or _own_items(comment))
        for row in range(comment.first, comment.last + 1)
    )


def add_noqa(text: str, findings: Sequence[Finding]) -> str:
    """The text with `# noqa: CODE` for each finding, at the end of its row.

    Where that row ends in a string or with a backslash the comment goes to the end of the logical line. Codes join a
    list that is there. Text that does not parse (VL001) gets no comment.
    """
    lines = rows(text)
    wanted: dict[int, set[str]] = {}
    logical = _logical_lines(text)
    for finding in findings:
        row = finding.span.start.row
        if finding.code == SYNTAX[0] or row > len(lines):
            continue
        line = next((line for line in logical if line.first <= row <= line.last), None)
        if line is not None and (row in line.inside_string or lines[row - 1].rstrip("\r\n").endswith("\\")):
            row = line.last
        wanted.setdefault(row, set()).add(finding.code)
    comments = {token.start[0]: token for line in logical for token in line.comments}
    for row, codes in wanted.items():
        comment = comments.get(row)
        lines[row - 1] = _with_codes(lines[row - 1], None if comment is None else comment.start[1], sorted(codes))
    return "".join(lines)


def _with_codes(row: str, comment_at: int | None, codes: list[str]) -> str:
    body = row.rstrip("\r\n")
    end = row[len(body) :]
    if comment_at is not None:
        for pattern in (_OWN, _NOQA):
            found = pattern.search(body, comment_at)
            if found and found["codes"] and not (pattern is _OWN and found["file"]):
                return f"{body[: found.end('codes')]}, {', '.join(codes)}{body[found.end('codes') :]}{end}"
    return f"{body.rstrip()}  # noqa: {', '.join(codes)}{end}"


@dataclass(frozen=True)
class _Line:
    """A logical line, or a comment between two; rows count from 1."""

    first: int
    last: int
    comments: tuple[tokenize.TokenInfo, ...]
    inside_string: frozenset[int]  # rows whose end lies in a string
    is_statement: bool


def _logical_lines(text: str) -> list[_Line]:
    done: list[_Line] = []
    tokens: list[tokenize.TokenInfo] = []

    def close() -> None:
        code = [token for token in tokens if token.type not in _OUTSIDE and token.type != tokenize.NEWLINE]
        comments = tuple(token for token in tokens if token.type == tokenize.COMMENT)
        if not code and not comments:
            return  # nothing but row ends: a lone carriage return is a token of its own
        first = code[0].start[0] if code else comments[0].start[0]
        last = max(token.end[0] for token in (*code, *comments))
        done.append(_Line(first, last, comments, _rows_ending_in_strings(code), bool(code)))
        tokens.clear()

    try:
        # The tokenizer takes a lone \r for an error; rows stay the same without it.
        source = StringIO(text.replace("\r\n", "\n").replace("\r", "\n"))
        for token in tokenize.generate_tokens(source.readline):
            if token.type in _OUTSIDE and not tokens:
                if token.type == tokenize.COMMENT:
                    tokens.append(token)
                    close()
                continue
            tokens.append(token)
            if token.type == tokenize.NEWLINE:
                close()
    except (tokenize.TokenError, SyntaxError):
        pass
    if any(token.type not in {tokenize.NL, tokenize.NEWLINE} for token in tokens):
        close()
    return done


def _rows_ending_in_strings(tokens: Sequence[tokenize.TokenInfo]) -> frozenset[int]:
    ends: set[int] = set()
    opened: list[int] = []  # rows where the f-strings and t-strings around a token start (Python >= 3.12)
    for token in tokens:
        name = tokenize.tok_name[token.type]
        if name.endswith("STRING_START"):
            opened.append(token.start[0])
        elif name.endswith("STRING_END"):
            ends.update(range(opened.pop(), token.end[0]))
        elif token.end[0] > token.start[0]:
            ends.update(range(token.start[0], token.end[0]))
    return frozenset(ends)


def _read(token: tokenize.TokenInfo, line: _Line) -> list[Suppression]:
    found = []
    for match in _NOQA.finditer(token.string):
        items = None if match["codes"] is None else tuple(re.split(r"[\s,]+", match["codes"].upper()))
        found.append(Suppression(_place(token, match), line.first, line.last, items))
    for match in _OWN.finditer(token.string):
        names = None if match["codes"] is None else tuple(filter(None, re.split(r"[\s,]+", match["codes"])))
        items = (
            None
            if names is None
            else tuple(name.upper() if re.fullmatch(r"(?i)vl\d+", name) else name for name in names)
        )
        if match["file"] and line.is_statement:
            continue
        first, last = (1, _END) if match["file"] else (line.first, line.last)
        found.append(Suppression(_place(token, match), first, last, items))
    return sorted(found, key=lambda comment: comment.span)


def _place(token: tokenize.TokenInfo, match: re.Match[str]) -> Span:
    row, column = token.start
    return Span(Position(row, column + match.start() + 1), Position(row, column + match.end() + 1))


def _own_items(comment: Suppression) -> list[str]:
    """The codes and names of this linter's rules among a comment's items."""
    return [item for item in comment.items or () if item.startswith("VL") or not re.fullmatch(r"[A-Z]+\d+", item)]


def _unused(comment: Suppression, findings: Sequence[Finding], path: str, off: Collection[str]) -> Finding | None:
    """VL901 for the codes of this linter that the comment names in vain."""
    covered = [finding for finding in findings if comment.covers(finding)]
    used = {name for finding in covered for name in (finding.code, finding.name)}
    vain = [item for item in _own_items(comment) if item not in used and item not in off and item not in UNUSED]
    if not vain:
        return None
    return Finding(path, comment.span, *UNUSED, f"unused suppression: {', '.join(vain)} is not reported here")
