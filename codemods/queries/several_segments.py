"""Whether boundaries split rows into several segments."""

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import lens_of, plain
from shapecheck.codemods.engine.terms import Term


def splits(term: Term) -> bool:
    """Whether boundaries come from outside, or are made of several lengths: not one segment for each dense sample."""
    inner = plain(term)
    bounds = bounds_of(inner)
    if bounds is None:
        return inner.op in {"parameter", "attr"} or (inner.op == "item" and isinstance(inner.args[1].value, str))
    if bounds.kind != "lens":
        return False
    lens = lens_of(bounds.source)
    if lens is None:
        return plain(bounds.source).op == "parameter"
    return lens.kind == "parts" and (len(lens.parts) > 1 or lens.parts[0].each)
