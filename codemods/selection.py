"""Which rules run: codes, prefixes and names from settings and command line become a set of rules."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from shapecheck.codemods.rule import Rule

SYNTAX = ("VL001", "invalid-syntax")  # reported whatever is selected, unless ignored
UNUSED = ("VL901", "unused-suppression")

_MODULE = re.compile(r"vl(\d{3})_(\w+)")
_PREFIX = re.compile(r"VL\d{0,3}")


@dataclass(frozen=True, slots=True)
class Layer:
    """The selection of one place (a settings file, the command line).

    Attributes:
        select: what runs instead of the layer below; None keeps that.
        extend: what runs besides.
        ignore: what does not run.
    """

    select: tuple[str, ...] | None = None
    extend: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


@cache
def known_codes() -> dict[str, str]:
    """Code -> name of every rule, from the names of the rules' modules: none is imported."""
    import pkgutil

    from shapecheck.codemods import rules

    found = (_MODULE.fullmatch(module.name) for module in pkgutil.iter_modules(rules.__path__))
    codes = {f"VL{match[1]}": match[2].replace("_", "-") for match in found if match}
    return dict(sorted({**codes, **dict((SYNTAX, UNUSED))}.items()))


def unknown_code(spec: str) -> str | None:
    """Why `spec` is no code, prefix or name of a rule; None if it is one."""
    codes = known_codes()
    if spec == "ALL" or spec in codes.values() or (_PREFIX.fullmatch(spec) and any(c.startswith(spec) for c in codes)):
        return None
    import difflib

    close = difflib.get_close_matches(spec, [*codes, *codes.values(), "ALL"], 1)
    if not close:
        close = difflib.get_close_matches(spec.upper(), [*codes, "ALL"], 1)
    hint = (
        f"did you mean {close[0]!r}?" if close else "expected a code such as VL103, a prefix such as VL1, a name or ALL"
    )
    return f"unknown rule {spec!r}: {hint}"


def selected(rules: Sequence[Rule], layers: Iterable[Layer], *, preview: bool) -> frozenset[str]:
    """The codes that run. The more specific code or prefix wins within a layer; on a tie `ignore` wins.

    Without any layer these are the stable rules below VL9. A prefix selects stable rules (VL9xx only if it starts with
    VL9), and preview rules if `preview`; a full code, a name and ALL select what they name.
    """
    stable = {SYNTAX[0]: True, UNUSED[0]: True} | {rule.code: rule.status == "stable" for rule in rules}
    active = {code for code in stable if _by_prefix("VL", code, stable, preview)}
    for layer in layers:
        chosen: dict[str, bool] = {} if layer.select is None else {SYNTAX[0]: True}
        adding = sorted((*(layer.select or ()), *layer.extend), key=_specificity)
        for weight in range(7):
            for spec in adding:
                if _specificity(spec) == weight:
                    chosen |= {code: True for code in stable if _adds(spec, code, stable, preview)}
            for spec in layer.ignore:
                if _specificity(spec) == weight:
                    chosen |= {code: False for code in stable if names(spec, code)}
        if layer.select is not None:
            active = set()
        active = (active | {code for code, on in chosen.items() if on}) - {
            code for code, on in chosen.items() if not on
        }
    return frozenset(active)


def names(spec: str, code: str) -> bool:
    """Whether a code, prefix, name or ALL means the rule with this code."""
    return spec == "ALL" or (spec.startswith("VL") and code.startswith(spec)) or known_codes().get(code) == spec


def _adds(spec: str, code: str, stable: Mapping[str, bool], preview: bool) -> bool:
    if not names(spec, code):
        return False
    return _specificity(spec) in {0, 6} or _by_prefix(spec, code, stable, preview)


def _by_prefix(prefix: str, code: str, stable: Mapping[str, bool], preview: bool) -> bool:
    return (preview or stable[code]) and (prefix.startswith("VL9") or not code.startswith("VL9"))


def _specificity(spec: str) -> int:
    """0 for ALL, 2 to 4 for prefixes, 6 for a code or a name."""
    return 0 if spec == "ALL" else len(spec) if _PREFIX.fullmatch(spec) and len(spec) < 5 else 6
