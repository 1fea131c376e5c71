"""Checks the text of one file as the settings want it: select, suppress, ignore by path; and fixes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from shapecheck.codemods.contracts import ContractIndex
from shapecheck.codemods.findings import Finding, Position, Silence, Span
from shapecheck.codemods.lintable import Lintable, read_lintable
from shapecheck.codemods.patterns import verdict
from shapecheck.codemods.rule import Rule
from shapecheck.codemods.selection import SYNTAX, UNUSED, Layer, known_codes, names, selected
from shapecheck.codemods.source import SourceError
from shapecheck.codemods.suppress import add_noqa, protected_rows, suppress, suppressions

Mode = Literal["check", "fix", "diff", "add-noqa"]


@dataclass(frozen=True)
class Profile:
    """What decides on the findings of a file besides its text.

    Attributes:
        root: the folder to which `per_file_ignores` are relative.
        layers: which rules run; later ones win.
        preview: whether prefixes select preview rules too.
        per_file_ignores: pairs of pattern and codes.
        extra: the user's part of the catalogue.
        contracts: the annotated signatures of the project.
    """

    root: str
    layers: tuple[Layer, ...] = ()
    preview: bool = False
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    contracts: ContractIndex = field(default_factory=ContractIndex)


@dataclass(frozen=True)
class Linted:
    """What became of a file.

    Attributes:
        findings: those that remain, placed.
        silences: calls that no rule could judge, placed.
        applied: number of fixes, or of comments added.
        data: the file's new bytes; None if they stay.
        diff: what would change, in mode `diff`.
    """

    findings: tuple[Finding, ...] = ()
    silences: tuple[Silence, ...] = ()
    applied: int = 0
    data: bytes | None = None
    diff: str = ""


class Linter:
    """Lints the files of one profile."""

    def __init__(self, profile: Profile, *, explain: bool = False) -> None:
        self._profile = profile
        self._explain = explain

    def lint(
        self, origin: Path | bytes, absolute: str, shown: str, mode: Mode, *, unsafe: bool = False, whole: bool = True
    ) -> Linted:
        """Lint a file, or the bytes of one; nothing is written.

        Args:
            origin: the file.
            absolute: its absolute path, for patterns.
            shown: its path in findings.
            mode: what to do with findings.
            unsafe: whether `fix` and `diff` also apply unsafe fixes.
            whole: whether `check` parses more than the parts that may matter; the other modes always do.

        Raises:
            OSError: the file cannot be read.
            SourceError: the fixed text cannot be stored.
        """
        try:
            try:
                file = read_lintable(origin, shown)
            except SourceError as error:
                return Linted(self._unreadable(str(error), absolute, shown))
            return Linted() if file is None else self._lint(file, absolute, shown, mode, unsafe, whole)
        except RecursionError:
            return Linted(self._unreadable("nested too deeply to be read", absolute, shown))

    def _lint(self, file: Lintable, absolute: str, shown: str, mode: Mode, unsafe: bool, whole: bool) -> Linted:
        findings, silences = self._check(file.text, absolute, shown, whole=whole or mode != "check")
        text, applied = file.text, 0
        if findings and mode == "add-noqa":
            wanted = [finding for finding in findings if finding.code not in {SYNTAX[0], UNUSED[0]}]
            text, applied = add_noqa(text, wanted), len(wanted)
        elif findings and mode != "check":
            from shapecheck.codemods.fixes import fix_text

            fixed = fix_text(
                text,
                lambda text: self._check(text, absolute, shown)[0],
                unsafe=unsafe,
                protected_rows=protected_rows(suppressions(text)),
            )
            text, applied = fixed.text, len(fixed.applied)
        data, diff = None, ""
        if text != file.text:
            data = file.encode(text)
            after = read_lintable(data, shown)
            assert after is not None
            if mode == "diff":
                from shapecheck.codemods.fixes import unified_diff

                diff = unified_diff(shown, file.document, after.document)
            file = after
            findings, silences = self._check(file.text, absolute, shown)
        return Linted(
            tuple(file.place(finding) for finding in findings),
            tuple(file.place_silence(silence) for silence in silences),
            applied,
            data,
            diff,
        )

    def _check(
        self, text: str, absolute: str, shown: str, *, whole: bool = True
    ) -> tuple[tuple[Finding, ...], tuple[Silence, ...]]:
        """Findings and silences of a text, rows counted in it."""
        from shapecheck.codemods.check import check

        checked = check(
            *(text, shown, self._rules, self._catalogue, self._profile.contracts), whole=whole, explain=self._explain
        )
        unread = any(finding.code == SYNTAX[0] for finding in checked.findings)  # then no rule had its say
        report_unused = UNUSED[0] in self.active and not unread
        kept = suppress(
            suppressions(text) if checked.findings or report_unused else (),
            [finding for finding in checked.findings if finding.code in self.active],
            shown,
            report_unused=report_unused,
            off=self._off,
        )
        return self._not_ignored(kept, absolute), checked.silences

    def _unreadable(self, reason: str, absolute: str, shown: str) -> tuple[Finding, ...]:
        if SYNTAX[0] not in self.active:
            return ()
        at = Position(1, 1)
        return self._not_ignored((Finding(shown, Span(at, at), *SYNTAX, reason),), absolute)

    def _not_ignored(self, findings: tuple[Finding, ...], absolute: str) -> tuple[Finding, ...]:
        if not findings:
            return ()
        ignored = [
            spec
            for pattern, codes in self._profile.per_file_ignores
            if verdict((pattern,), self._profile.root, absolute)
            for spec in codes
        ]
        return tuple(finding for finding in findings if not any(names(spec, finding.code) for spec in ignored))

    @cached_property
    def active(self) -> frozenset[str]:
        """The codes that run."""
        from shapecheck.codemods.rules import all_rules

        return selected(all_rules(), self._profile.layers, preview=self._profile.preview)

    @cached_property
    def _rules(self) -> tuple[Rule, ...]:
        from shapecheck.codemods.rules import all_rules

        return tuple(rule for rule in all_rules() if rule.code in self.active)

    @cached_property
    def _off(self) -> frozenset[str]:
        off = [(code, name) for code, name in known_codes().items() if code not in self.active]
        return frozenset(item for pair in off for item in pair)

    @cached_property
    def _catalogue(self) -> Any:
        from shapecheck.codemods.catalogue import Catalogue

        return Catalogue.load(self._profile.extra)
