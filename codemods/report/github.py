"""The format `github`: workflow commands that put findings beside the lines of a pull request."""

from collections.abc import Sequence

from shapecheck.codemods.findings import Finding
from shapecheck.codemods.report import Sources
from shapecheck.codemods.report._places import in_words, relative


def render(findings: Sequence[Finding], *, sources: Sources, color: bool, version: str) -> str:
    """A command per finding; nothing without findings."""
    del sources, color, version
    return "".join(f"{_command(finding)}\n" for finding in findings)


def _command(finding: Finding) -> str:
    path = relative(finding.path)
    start, end = finding.span.start, finding.span.end
    fields = {"title": f"shapecheck ({finding.code})", "file": path}
    if finding.cell is not None:
        fields["line"] = "1"  # rows count within a cell, which a file's lines cannot say
    else:
        fields |= {
            "line": str(start.row),
            "col": str(start.column),
            "endLine": str(end.row),
            "endColumn": str(end.column),
        }
    lines = [f"{in_words(path, finding.cell, start)}: {finding.code} {finding.message}"]
    for note in finding.notes:
        place = in_words(path, finding.cell, note.span.start) if note.path is None else None
        lines.append(f"  {place or in_words(relative(note.path or path), None, note.span.start)}: {note.message}")
    if finding.fix is not None:
        lines.append(f"  help: {finding.fix.title}")
    properties = ",".join(f"{key}={_property(value)}" for key, value in fields.items())
    return f"::error {properties}::{_data(chr(10).join(lines))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
