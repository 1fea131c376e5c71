"""Maxima: the longest segment, and what it was taken over."""

from dataclasses import dataclass

from shapecheck.codemods.engine.describe.lengths import Length, Lens, length_of, lens_of, plain
from shapecheck.codemods.engine.terms import Term


@dataclass(frozen=True)
class Max:
    """`lens`: the largest of a list of lengths (`source`); `mask`: the longest row of a mask; `dense`: one length."""

    term: Term
    kind: str
    source: Term
    lens: Lens | None = None
    length: Length | None = None


def max_of(term: Term) -> Max | None:
    """The maximum that a value is; None where it is something else."""
    inner = plain(term)
    match inner.op:
        case "max" if len(inner.args) == 1:
            return Max(term, "lens", plain(inner.args[0]), lens_of(inner.args[0]))
        case "mask_max":
            return Max(term, "mask", inner.args[0])
        case "shape" | "len" | "numel":
            length = length_of(inner)
            return None if length is None else Max(term, "dense", inner, None, length)
    return None
