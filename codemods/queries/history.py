"""Where the rows of a value come from, and what was done to them on the way."""

from collections.abc import Sequence

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.describe.rows import Change, rows_of
from shapecheck.codemods.engine.terms import Term

_KINDS = {"slice", "pick", "pad", "roll", "unpad", "shard", "narrow"}
_FILLERS = {"full", "full_like", "arange"}


def traced(term: Term) -> tuple[Term, Sequence[Change]]:
    """Where the rows come from and what was done to them; stores into rows keep them."""
    term = unstored(term)
    if term.op == "each" and len(term.args) == 2 and term.args[0].op == "item":
        base, index = term.args[0].args
        if index.op == "elem" and index.args[0] is term.args[1]:  # [x[i] for i in keep]
            root, changes = traced(base)
            return root, [*changes, Change("pick", term, (term.args[1],))]
    rows = rows_of(term)
    if len(rows.parts) == 2 and rows.known and not rows.parts[0].changes:
        filler = plain(rows.parts[1].root)
        if filler.op in _FILLERS and all(change.kind in _KINDS for change in rows.changes):
            # cat([x, x.new_zeros(n)]) pads
            sizes = tuple(size for size in filler.args[1:] if isinstance(size, Term))
            root, changes = traced(rows.parts[0].root)
            return root, [*changes, Change("pad", filler, sizes), *rows.changes]
    if len(rows.parts) != 1 or not rows.known:
        return term, [Change("other", term, (term,))]
    part = rows.flat[0]
    changes = list(part.changes)
    if any(change.kind not in _KINDS for change in changes):
        return term, [Change("other", term, (term,))]
    root = unstored(part.root)
    if root is not part.root:
        inner, before = traced(root)
        return inner, [*before, *changes]
    return root, changes


def unstored(term: Term) -> Term:
    """The buffer, without what was stored into it."""
    while term.op in {"store", "filled"}:
        term = term.args[0]
    return term
