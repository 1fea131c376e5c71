"""What a rule is. Each lives in a module of `codemods.rules`, with its documentation and its cases."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from shapecheck.codemods.findings import Finding

Status = Literal["stable", "preview"]


@dataclass(frozen=True)
class Invalid:
    """Code in which the rule finds its fault.

    Attributes:
        code: a whole module.
        rows: the rows with findings of this rule, ascending.
        fixed: what `--fix --unsafe-fixes` makes of it, if the rule can mend it.
    """

    code: str
    rows: tuple[int, ...]
    fixed: str | None = None


@dataclass(frozen=True)
class Rule:
    """A rule.

    Attributes:
        code: `VL` and three digits; the first digit is the band.
        name: the bad pattern in kebab case; reads well after "allow".
        status: stable rules run by default, preview rules when selected.
        doc: Markdown with the sections What it does, Why is this bad?, Example, Use instead, Fix safety, References.
        check: yields the findings of one function; see `codemods.engine`. None: another part of the linter reports it.
        valid: modules without a finding of this rule.
        invalid: modules with one.
        fixable: whether some findings carry a fix.
    """

    code: str
    name: str
    status: Status
    doc: str
    check: Callable[[Any], Iterator[Finding]] | None
    valid: tuple[str, ...] = ()
    invalid: tuple[Invalid, ...] = ()
    fixable: bool = field(default=False)

    @cached_property
    def summary(self) -> str:
        """The first paragraph of the documentation, in one line."""
        return " ".join(self.doc.strip().split("\n\n")[0].split())
