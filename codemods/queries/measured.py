"""What boundaries and maxima were measured on: equal for boundaries and the maximum that belongs to them."""

from dataclasses import dataclass, field

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import differences, plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.view import View

# `-1` and `1` are the token axis of a (batch, tokens) mask.
_TOKEN_AXES = {1, -1}


@dataclass(frozen=True)
class Measured:
    """Segment lengths.

    Attributes:
        kind: `lens` (a list of lengths), `diff` (of boundaries that are not understood), `mask`, `dense`.
        term: the list, the boundaries, the mask or the common length.
        lens: the lengths themselves, where they are at hand.
    """

    kind: str
    term: Term
    lens: Term = field(compare=False)

    def name(self, view: View) -> str:
        """What the lengths are called, or else the expression that made them, in backticks; "other lengths" if long."""
        for binding in view.bindings:
            if binding.target.isidentifier() and plain(binding.value) in {self.term, self.lens}:
                return f"`{binding.target}`"
        text = named(view, self.term)
        return "other lengths" if text == "a part" else text


def lengths_in(term: Term) -> Measured:
    """What a list of lengths was measured on; a length that is there several times counts once."""
    term = plain(term)
    if term.op == "repeat_interleave":
        term = plain(term.args[0])
    boundaries = term.args[0] if term.op == "diff" else differences(term)
    if boundaries is not None:
        return of_bounds(boundaries)
    if term.op == "sum" and len(term.args) == 2 and term.args[1].op == "const" and term.args[1].value in _TOKEN_AXES:
        return Measured("mask", truth(term.args[0]), term)
    if term.op == "full" and len(term.args) == 2:
        return Measured("dense", plain(term.args[0]), term)
    return Measured("lens", term, term)


def truth(mask: Term) -> Term:
    """A mask without casts and comparisons with one: the same tokens."""
    mask = plain(mask)
    if mask.op in {"Eq", "Gt", "NotEq"} and mask.args[1].op == "const":
        return plain(mask.args[0])
    return mask


def of_bounds(term: Term) -> Measured:
    """What the segments of boundaries were measured on."""
    bounds = bounds_of(term)
    if bounds is not None and bounds.divisor is None and not bounds.appended:
        if bounds.kind == "lens":
            return lengths_in(bounds.source)
        if bounds.kind in {"mask", "dense"}:
            source = truth(bounds.source) if bounds.kind == "mask" else plain(bounds.source)
            return Measured(bounds.kind, source, source)
    return Measured("diff", plain(term), plain(term))


def of_max(term: Term) -> Measured | None:
    """What a maximum was taken over; None where the value is no maximum for sure."""
    term = plain(term)
    if term.op == "max" and len(term.args) == 1:
        return lengths_in(term.args[0])
    if term.op == "mask_max":
        return Measured("mask", truth(term.args[0]), term)
    if term.op in {"shape", "len"}:
        return Measured("dense", term, term)
    return None
