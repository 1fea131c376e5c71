"""What the text formats share: the line of a finding, and the last lines."""

from collections.abc import Sequence

import click
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.report._frames import printable
from shapecheck.codemods.report._places import in_words


def headline(finding: Finding, color: bool) -> str:
    """`path:row:column: VL101 [*] message`, where `[*]` says that `--fix` mends it."""
    place = printable(in_words(finding.path, finding.cell, finding.span.start))
    code = click.style(finding.code, fg="red", bold=True) if color else finding.code
    fixable = "[*] " if finding.fix is not None and finding.fix.safe else ""
    return f"{click.style(place, bold=True) if color else place}: {code} {fixable}{printable(finding.message)}"


def summary(findings: Sequence[Finding]) -> str:
    """How many findings there are, and how many of them have a fix."""
    if not findings:
        return "No findings.\n"
    files = len({finding.path for finding in findings})
    lines = [f"{_count(len(findings), 'finding')} in {_count(files, 'file')}.\n"]
    safe = sum(finding.fix is not None and finding.fix.safe for finding in findings)
    unsafe = sum(finding.fix is not None and not finding.fix.safe for finding in findings)
    if safe:
        lines.append(
            f"[*] {safe} fixable with `--fix`" + (f", {unsafe} more with `--unsafe-fixes`.\n" if unsafe else ".\n")
        )
    elif unsafe:
        lines.append(f"{unsafe} fixable with `--fix --unsafe-fixes`.\n")
    return "".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
