"""How messages name the parts of packed rows."""

import ast
from collections.abc import Sequence

from shapecheck.codemods.engine.describe.rows import Part
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.view import View


def named(view: View, term: Term) -> str:
    """A value's variable, or else the expression that made it, in backticks; "a part" where that is long."""
    if term.op == "parameter":
        return f"`{term.args[0]}`"
    for binding in view.bindings:
        if binding.value is term and binding.target.isidentifier():
            return f"`{binding.target}`"
    text = written(term.node)
    return "a part" if text == "a value" else text


def part_name(view: View, part: Part) -> str:
    """One part of packed rows."""
    name = named(view, part.root)
    return f"each {name}" if part.each and name.startswith("`") else name


def part_names(view: View, term: Term, parts: Sequence[Part]) -> list[str]:
    """The parts of a value as its own display writes them, or else by what they were made from."""
    display = display_of(term)
    if display is not None and len(display.elts) == len(parts):
        names = [written(elt) for elt in display.elts]
        if "a value" not in names:
            return names
    return [part_name(view, part) for part in parts]


def display_of(term: Term) -> ast.List | ast.Tuple | None:
    """The list or tuple display that a value was concatenated from."""
    while term.op in {"view", "elementwise", "cast", "host", "moved", "copy", "typed_like", "tensor", "pad"}:
        term = term.args[1 if term.op in {"view", "elementwise"} else 0]
    if term.op == "cat":
        term = term.args[1]
    return term.node if isinstance(term.node, ast.List | ast.Tuple) else None
