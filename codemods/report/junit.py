"""The format `junit`: a suite per file, a failed case per finding."""

import re
from collections.abc import Sequence
from itertools import groupby
from xml.etree import ElementTree as ET

from shapecheck.codemods.findings import Finding
from shapecheck.codemods.report import Sources
from shapecheck.codemods.report._places import in_words

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # characters that XML 1.0 cannot hold


def render(findings: Sequence[Finding], *, sources: Sources, color: bool, version: str) -> str:
    """An XML document; without findings it holds one passed case, since no case at all counts as a failed run."""
    del sources, color, version
    root = ET.Element(
        "testsuites", name="shapecheck", tests=str(len(findings) or 1), failures=str(len(findings)), errors="0"
    )
    for path, group in groupby(findings, key=lambda finding: finding.path):
        in_file = list(group)
        counts = {"tests": str(len(in_file)), "failures": str(len(in_file)), "errors": "0", "skipped": "0"}
        suite = ET.SubElement(root, "testsuite", {"name": _legal(path), **counts})
        for finding in in_file:
            _case(suite, finding)
    if not findings:
        suite = ET.SubElement(root, "testsuite", name="shapecheck", tests="1", failures="0", errors="0", skipped="0")
        ET.SubElement(suite, "testcase", name="no findings", classname="shapecheck")
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _case(suite: ET.Element, finding: Finding) -> None:
    start = finding.span.start
    place = {"file": _legal(finding.path), "line": str(start.row), "column": str(start.column)}
    names = {"name": f"{finding.code} {finding.name}", "classname": _legal(finding.path.removesuffix(".py"))}
    failure = ET.SubElement(ET.SubElement(suite, "testcase", names | place), "failure", message=_legal(finding.message))
    lines = [f"{in_words(finding.path, finding.cell, start)}: {finding.message}"]
    for note in finding.notes:
        path, cell = (finding.path, finding.cell) if note.path is None else (note.path, None)
        lines.append(f"{in_words(path, cell, note.span.start)}: {note.message}")
    failure.text = _legal("\n".join(lines))


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)
