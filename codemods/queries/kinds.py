"""Whether a value is boundaries or a maximum: by how it was made, else by what it is called."""

import ast
from dataclasses import dataclass

from shapecheck.codemods.catalogue import Catalogue
from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.words import words

_BOUNDS = {"bounds", "padded", "ends"}


@dataclass(frozen=True)
class Kind:
    """`bounds` or `max`; `proven` if the value was seen to be made so."""

    name: str
    proven: bool


def kind_of_role(role: str | None) -> str | None:
    """`bounds` or `max` for the roles that are one of them."""
    kind = (role or "").partition("_")[0]
    return "bounds" if kind in _BOUNDS else "max" if kind == "max" else None


def kind_of(term: Term, node: ast.AST, catalogue: Catalogue) -> Kind | None:
    """The kind of a value; None if unknown."""
    made = plain(term)
    if made.op == "max" and len(made.args) == 1:
        return Kind("max", True)
    if made.op == "mask_max":
        return Kind("max", True)
    if bounds_of(term) is not None:
        return Kind("bounds", True)
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            found = kind_of_role(catalogue.role_of(name)) or _by_word(name)
            return None if found is None else Kind(found, False)
    return None


def _by_word(name: str) -> str | None:
    said = words(name)
    if said & {"max", "longest", "maximum"}:
        return "max"
    if "cu" in said or "indptr" in said or {"start", "loc"} <= said:
        return "bounds"
    return None
