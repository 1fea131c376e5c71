"""The output formats, one module each, imported when asked for."""

import importlib
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from shapecheck.codemods.findings import Finding
from shapecheck.codemods.report._links import rule_url as rule_url

FORMATS: tuple[str, ...] = ("full", "concise", "json", "sarif", "github", "gitlab", "junit")

Sources = Callable[[str], str]


class _Format(Protocol):
    def render(self, findings: Sequence[Finding], *, sources: Sources, color: bool, version: str) -> str: ...


def render(name: str, findings: Sequence[Finding], *, sources: Sources, color: bool, version: str) -> str:
    """The findings, in their order, as a text whose last row has a row end; valid and complete without findings too.

    Args:
        name: one of `FORMATS`.
        findings: what to report.
        sources: gives the text of the file at a path; an OSError or UnicodeError means that there is none to show.
            Never asked for a notebook, whose spans count within cells.
        color: whether the text formats use ANSI colours.
        version: of shapecheck.
    """
    module = cast("_Format", importlib.import_module(f"{__name__}.{name}"))
    return module.render(findings, sources=sources, color=color, version=version)


def render_statistics(findings: Sequence[Finding], name: str) -> str:
    """How often each rule was broken, most often first: JSON for the format `json`, else text."""
    from shapecheck.codemods.report import _statistics

    return _statistics.as_json(findings) if name == "json" else _statistics.as_text(findings)
