"""The format `full`: each finding with its source, and a summary."""

from collections.abc import Sequence

import click
from shapecheck.codemods.findings import Finding, Note
from shapecheck.codemods.report import Sources
from shapecheck.codemods.report._frames import Mark, frame, near, printable
from shapecheck.codemods.report._places import in_words, rows_of
from shapecheck.codemods.report._summary import headline, summary


def render(findings: Sequence[Finding], *, sources: Sources, color: bool, version: str) -> str:
    """Blocks separated by empty lines."""
    del version
    rows = rows_of(sources)

    def paint(text: str, is_fault: bool) -> str:
        return click.style(text, fg="red" if is_fault else "blue", bold=True) if color else text

    blocks = []
    for finding in findings:
        here, apart = _split(finding)
        marks = [
            Mark(finding.span, "", is_fault=True),
            *(Mark(note.span, note.message, is_fault=False) for note in here),
        ]
        lines = [headline(finding, color), *frame(rows(finding.path, finding.cell), marks, paint)]
        if len(lines) == 1:
            apart = finding.notes
        for note in apart:
            path, cell = (finding.path, finding.cell) if note.path is None else (note.path, None)
            lines.append(f"{paint('note:', False)} {printable(note.message)}")
            lines.append(f"  --> {printable(in_words(path, cell, note.span.start))}")
            lines += frame(rows(path, cell), [Mark(note.span, "", is_fault=False)], paint)
        if finding.fix is not None:
            safety = "[*]" if finding.fix.safe else "[unsafe]"
            lines.append(f"{paint('help:', False)} {printable(finding.fix.title)} {safety}")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join([*blocks, summary(findings)])


def _split(finding: Finding) -> tuple[Sequence[Note], Sequence[Note]]:
    """The notes that share the finding's frame, and the others."""
    here = [note for note in finding.notes if note.path in {None, finding.path} and near(note.span, finding.span)]
    return here, [note for note in finding.notes if note not in here]
