"""The format `sarif`: SARIF 2.1.0, with the fields that GitHub's code scanning reads."""

import json
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from shapecheck.codemods.findings import Finding, Span
from shapecheck.codemods.report import Sources
from shapecheck.codemods.report._places import fingerprints, relative

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(findings: Sequence[Finding], *, sources: Sources, color: bool, version: str) -> str:
    """One log with one run."""
    del color
    rules = {finding.code: finding.name for finding in sorted(findings, key=lambda finding: finding.code)}
    codes = list(rules)
    run = {
        "tool": {"driver": {"name": "shapecheck", "version": version, "rules": _rules(rules)}},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The folder in which shapecheck ran."}}},
        "results": [
            _result(finding, codes.index(finding.code), mark)
            for finding, mark in zip(findings, fingerprints(findings, sources), strict=True)
        ],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rules(names: dict[str, str]) -> list[dict[str, Any]]:
    """The rules that found something. No helpUri: it must be absolute, and the help holds all of the documentation."""
    from shapecheck.codemods.rules import all_rules

    known = {rule.code: rule for rule in all_rules()}
    described = []
    for code, name in names.items():
        summary, doc = (known[code].summary, known[code].doc.strip()) if code in known else (name, name)
        described.append(
            {
                "id": code,
                "name": name,
                "shortDescription": {"text": summary},
                "fullDescription": {"text": summary},
                "help": {"text": doc, "markdown": doc},
                "defaultConfiguration": {"level": "error"},
                "properties": {"tags": ["correctness", "varlen"], "precision": "high", "problem.severity": "error"},
            }
        )
    return described


def _result(finding: Finding, index: int, fingerprint: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": "error",
        "message": {"text": finding.message},
        "locations": [_location(finding.path, finding.cell, finding.span)],
        "partialFingerprints": {"shapecheck/v1": fingerprint},
    }
    if finding.notes:
        result["relatedLocations"] = [
            {
                "id": number,
                **_location(note.path or finding.path, finding.cell if note.path is None else None, note.span),
                "message": {"text": note.message},
            }
            for number, note in enumerate(finding.notes, 1)
        ]
    return result


def _location(path: str, cell: int | None, span: Span) -> dict[str, Any]:
    where = relative(path)
    artifact = (
        {"uri": Path(where).as_uri()}
        if PurePath(where).is_absolute()
        else {"uri": quote(where, errors="surrogateescape"), "uriBaseId": "SRCROOT"}
    )
    region = {
        "startLine": span.start.row,
        "startColumn": span.start.column,
        "endLine": span.end.row,
        "endColumn": span.end.column,
    }
    if cell is not None:
        region = {"startLine": 1}  # rows count within a cell, which a file's lines cannot say
    return {"physicalLocation": {"artifactLocation": artifact, "region": region}}
