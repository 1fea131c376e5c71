"""Checks one file: parse, interpret the functions that matter, ask the rules."""

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shapecheck.codemods.catalogue import Catalogue
from shapecheck.codemods.contracts import ContractIndex
from shapecheck.codemods.engine.module import Function, Module
from shapecheck.codemods.findings import Finding, Position, Silence, Span
from shapecheck.codemods.rule import Rule
from shapecheck.codemods.screen import Screen
from shapecheck.codemods.view import Source, View


@dataclass(frozen=True)
class Checked:
    """The findings of one file, sorted; and the calls that no rule could judge."""

    findings: tuple[Finding, ...]
    silences: tuple[Silence, ...] = ()


def check(
    text: str,
    path: str,
    rules: Sequence[Rule],
    catalogue: Catalogue,
    contracts: ContractIndex | None = None,
    *,
    whole: bool = True,
    explain: bool = False,
) -> Checked:
    """Check a file's text.

    Args:
        whole: parse all of it, so that a syntax error anywhere is a finding (VL001); otherwise only the parts that
        may matter.
        explain: also say why calls with packed metadata have no finding.
    """
    # Rows as ast counts them; columns stay.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    helpers = catalogue.helpers
    index = contracts or ContractIndex.of_text(text, path)
    try:
        tree = _parsed(text, path) if whole else None
        try:
            views = _views(Module(text, None, helpers), text, path, catalogue, index)
        except SyntaxError:
            # Cut wrongly, or wrong itself: the whole tells.
            views = _views(Module(text, tree or _parsed(text, path), helpers), text, path, catalogue, index)
    except (SyntaxError, ValueError) as error:
        return Checked((_unparsable(error, path),))
    except (RecursionError, MemoryError):  # what the parser raises, by version and cause
        return Checked((_nested_too_deeply(path),))
    found = {finding.sort_key(): finding for view in views for rule in rules for finding in _found(rule, view)}
    findings = tuple(_once([found[key] for key in sorted(found)]))
    if not explain:
        return Checked(findings)
    from shapecheck.codemods.silence import silences

    return Checked(findings, tuple(silence for view in views for silence in silences(view, findings)))


def _found(rule: Rule, view: View) -> list[Finding]:
    """What a rule finds in a function; nothing where the function is nested too deeply for it."""
    try:
        return [] if rule.check is None else list(rule.check(view))
    except RecursionError:
        return []


def _once(findings: Sequence[Finding]) -> Iterator[Finding]:
    """One fault, one finding: what a signature's annotations say (VL6) is left out where a rule about the values has
    spoken."""
    spoken = {finding.span for finding in findings if not finding.code.startswith("VL6")}
    for finding in findings:
        places = {finding.span, *(note.span for note in finding.notes)}
        if not finding.code.startswith("VL6") or not places & spoken:
            yield finding


def _parsed(text: str, path: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes and the like are not our subject
        return ast.parse(text, path)


def _views(module: Module, text: str, path: str, catalogue: Catalogue, contracts: ContractIndex) -> list[View]:
    called = _called(text, contracts)
    screen = (Screen(catalogue.words) if catalogue.words else Screen.default()).within(text)

    def wanted(part: str) -> bool:
        return screen.opens(part) or (called is not None and called.search(part.encode()) is not None)

    source = Source(text)
    views: list[View] = []
    for node in module.definitions(wanted):
        try:
            functions = _with_nested(module.interpret(node))
        except RecursionError:  # it parses, but is nested too deeply to be run
            continue
        views += [View(function, catalogue, source, path, views, contracts) for function in functions]
    return views


def _called(text: str, contracts: ContractIndex) -> "re.Pattern[bytes] | None":
    """Matches the parts of a text that may call an annotated signature, also by an alias or as an instance in a
    name."""
    data = text.encode()
    if contracts.pattern is None or not contracts.pattern.search(data):
        return contracts.pattern
    names = contracts.pattern.pattern
    given = re.compile(
        rb"^[ \t]*(?:\w+\.)*(\w+)[ \t]*(?::[^=\n]*)?=(?!=)[^\n]*?%b|%b[ \t]+as[ \t]+(\w+)" % (names, names),
        re.MULTILINE,
    )
    local = {name for pair in given.findall(data) for name in pair if name}
    return re.compile(rb"%b|\b(?:%b)\b" % (names, b"|".join(sorted(local)))) if local else contracts.pattern


def _with_nested(function: Function) -> list[Function]:
    return [function, *(inner for nested in function.nested for inner in _with_nested(nested))]


def _unparsable(error: SyntaxError | ValueError, path: str) -> Finding:
    row = getattr(error, "lineno", None) or 1
    column = max(getattr(error, "offset", None) or 1, 1)
    at = Position(row, column)
    reason = error.msg if isinstance(error, SyntaxError) else str(error)
    return Finding(path, Span(at, at), "VL001", "invalid-syntax", f"does not parse as Python: {reason}")


def _nested_too_deeply(path: str) -> Finding:
    at = Position(1, 1)
    return Finding(path, Span(at, at), "VL001", "invalid-syntax", "nested too deeply to be read")
