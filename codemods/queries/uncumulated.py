"""Lengths that were never cumulated, with or without a zero in front."""

from dataclasses import dataclass

from shapecheck.codemods.engine.describe.bounds import leading_zeros
from shapecheck.codemods.engine.describe.lengths import lens_of, plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.growing import grows
from shapecheck.codemods.queries.names import outer_name
from shapecheck.codemods.queries.rounding import rounded
from shapecheck.codemods.view import View


@dataclass(frozen=True)
class Uncumulated:
    """`lens`: the lengths; `zeros`: how many zeros were put in front of them."""

    lens: Term
    zeros: int


def uncumulated(term: Term, view: View, *, certain_callee: bool = False) -> Uncumulated | None:
    """The lengths that a value is; None where it is cumulated or may be something else."""
    inner = plain(term)
    zeros, rest = leading_zeros(inner)
    lens = plain(rest)
    if certainly_lengths(lens) or ((zeros or certain_callee) and _named(lens, view)):
        return Uncumulated(lens, zeros)
    return None


def certainly_lengths(lens: Term) -> bool:
    """Whether a value holds one length for each of several segments."""
    if lens.op == "repeat_interleave":
        # Frame areas, once for each frame: (h * w) repeated t times. Increasing boundaries have no repeated value.
        return _is_area(plain(lens.args[0]))
    if _is_area(lens) and _is_list(lens):
        return True
    if lens.op == "each" and len(lens.args) == 2:
        item = lens.args[0]
        if item.op == "star":
            inner = plain(item.args[0])
            if inner.op == "each":
                return certainly_lengths(inner)
            if inner.op == "Mult" and inner.args[0].op == "list":
                item = inner.args[0].args[0]  # [h * w] * t
        if _is_area(plain(item)) or rounded(item) is not None:
            return True
    if lens.op in {"list", "tuple"} and len(lens.args) == 1 and lens.args[0].op != "star":
        return False  # one number: the end of the only segment, also where it is the length of many joined values
    if lens.op == "sum" and plain(lens.args[0]).op == "Mult":
        return False  # a product with a triangular matrix is a cumulative sum
    found = lens_of(lens)
    if found is None or found.kind == "dense":
        return False
    if found.kind == "parts":
        # `[a.shape[0], x.shape[0]]` are boundaries where x begins with the rows of a.
        # So are the lengths of a growing list.
        return all(part.each and part.root.op != "round" and not grows(part.root) for part in found.parts)
    return True


def _is_area(term: Term) -> bool:
    """Whether a value is a product of the sides of an image, or of each image."""
    if term.op == "prod":
        return True
    return term.op == "Mult" and all(_is_side(plain(side)) or _is_area(plain(side)) for side in term.args)


def _is_side(term: Term) -> bool:
    if term.op == "FloorDiv":
        return _is_side(plain(term.args[0]))
    if term.op == "elem":
        return bool(term.args[0].op != "arange")  # i * n are boundaries
    return term.op in {"item", "shape"}


def _is_list(area: Term) -> bool:
    """Whether there is one area for each image: a product over the last axis, or of columns."""
    if area.op == "prod":
        return len(area.args) == 2
    side = plain(area.args[-1])
    return side.op == "item" and side.args[1].op == "tuple" and side.args[1].args[0].op == "slice"


def _named(lens: Term, view: View) -> bool:
    """Whether the value comes from outside under a name for lengths, and there are several: their maximum is taken."""
    name = outer_name(lens)
    if name is None or view.catalogue.role_of(name) != "lens" or not name.endswith("s"):
        return False
    return any(call.name in {"max", "amax"} and _is_max(call.result, lens) for call in view.calls)


def _is_max(term: Term, lens: Term) -> bool:
    term = plain(term)
    return term.op == "max" and plain(term.args[0]) is lens
