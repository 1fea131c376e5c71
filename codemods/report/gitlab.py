"""The format `gitlab`: a Code Quality report."""

import json
from collections.abc import Sequence
from typing import Any

from shapecheck.codemods.findings import Finding, Position
from shapecheck.codemods.report import Sources
from shapecheck.codemods.report._places import fingerprints, relative


def render(findings: Sequence[Finding], *, sources: Sources, color: bool, version: str) -> str:
    """One JSON array."""
    del color, version
    marks = fingerprints(findings, sources)
    return json.dumps([_issue(*issue) for issue in zip(findings, marks, strict=True)], indent=2) + "\n"


def _issue(finding: Finding, fingerprint: str) -> dict[str, Any]:
    start, end = finding.span.start, finding.span.end
    if finding.cell is not None:
        start = end = Position(1, 1)  # rows count within a cell, which a file's lines cannot say
    return {
        "check_name": finding.code,
        "description": f"{finding.code}: {finding.message}",
        "severity": "major",
        "fingerprint": fingerprint,
        "location": {
            "path": relative(finding.path),
            "positions": {
                "begin": {"line": start.row, "column": start.column},
                "end": {"line": end.row, "column": end.column},
            },
        },
    }
