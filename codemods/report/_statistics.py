"""How often each rule was broken."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from shapecheck.codemods.findings import Finding


@dataclass(frozen=True, slots=True)
class _Line:
    code: str
    name: str
    count: int
    fixable: bool  # all of them, with --fix
    fixable_count: int


def as_json(findings: Sequence[Finding]) -> str:
    """A JSON array, with the fields that ruff gives."""
    return json.dumps([asdict(line) for line in _lines(findings)], indent=2) + "\n"


def as_text(findings: Sequence[Finding]) -> str:
    """Columns: count, code, `[*]` if `--fix` mends all or `[-]` if some, name. Nothing without findings."""
    lines = _lines(findings)
    width = max((len(str(line.count)) for line in lines), default=0)
    signs = any(line.fixable_count for line in lines)
    rows = []
    for line in lines:
        sign = "[*] " if line.fixable else "[-] " if line.fixable_count else "    "
        rows.append(f"{line.count:{width}}  {line.code}  {sign if signs else ''}{line.name}\n")
    return "".join(rows)


def _lines(findings: Sequence[Finding]) -> list[_Line]:
    lines = []
    for code, name in {finding.code: finding.name for finding in findings}.items():
        fixes = [finding.fix for finding in findings if finding.code == code]
        safe = sum(fix is not None and fix.safe for fix in fixes)
        lines.append(_Line(code, name, len(fixes), safe == len(fixes), safe))
    return sorted(lines, key=lambda line: (-line.count, line.code))
