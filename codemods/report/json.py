"""The format `json`: an array of findings with the fields that ruff gives its own."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from shapecheck.codemods.findings import Finding, Position, Span
from shapecheck.codemods.report import Sources
from shapecheck.codemods.report._links import rule_url


def render(findings: Sequence[Finding], *, sources: Sources, color: bool, version: str) -> str:
    """One JSON array."""
    del color, version
    edits = _Edits(sources)
    return json.dumps([_finding(finding, edits.of) for finding in findings], indent=2) + "\n"


def _finding(finding: Finding, edits: Callable[[Finding], list[dict[str, Any]] | None]) -> dict[str, Any]:
    made = edits(finding)
    return {
        "filename": finding.path,
        **_span(finding.span),
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "fix": None
        if finding.fix is None or made is None
        else {
            "applicability": "safe" if finding.fix.safe else "unsafe",
            "message": finding.fix.title,
            "edits": made,
        },
        "url": rule_url(finding.name),
        "cell": finding.cell,
        "notes": [
            {"filename": note.path or finding.path, **_span(note.span), "message": note.message}
            for note in finding.notes
        ],
    }


class _Edits:
    """Makes edits concrete: characters to be replaced, as any editor can."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._path: str | None = None
        self._patcher: Any = None

    def of(self, finding: Finding) -> list[dict[str, Any]] | None:
        """The edits of a finding; None if it has no fix or it cannot be made."""
        if finding.fix is None or finding.cell is not None:
            return None
        from shapecheck.codemods.fixes import FixRefused, Patcher

        try:
            if finding.path != self._path:  # findings come file by file: one tree is enough
                self._patcher, self._path = Patcher(self._sources(finding.path)), finding.path
            patches = self._patcher.patches(finding.fix.edits)
        except (FixRefused, OSError, UnicodeError):
            return None
        at = self._patcher.rows.position
        return [{"content": patch.code, **_span(Span(at(patch.start), at(patch.end)))} for patch in patches]


def _span(span: Span) -> dict[str, Any]:
    return {"location": _position(span.start), "end_location": _position(span.end)}


def _position(position: Position) -> dict[str, int]:
    return {"row": position.row, "column": position.column}
