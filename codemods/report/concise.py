"""The format `concise`: a line per finding, and a summary."""

from collections.abc import Sequence

from shapecheck.codemods.findings import Finding
from shapecheck.codemods.report import Sources
from shapecheck.codemods.report._summary import headline, summary


def render(findings: Sequence[Finding], *, sources: Sources, color: bool, version: str) -> str:
    """Lines."""
    del sources, version
    return "".join(f"{headline(finding, color)}\n" for finding in findings) + summary(findings)
