"""What a value is called where it comes from: a parameter, an attribute, a key."""

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term


def outer_name(term: Term) -> str | None:
    """The name under which a value came into the function; None for values that were computed here."""
    if term.op == "parameter":
        return str(term.args[0])
    if term.op == "attr":
        return str(term.args[1])
    if term.op == "item" and term.args[1].op == "const" and isinstance(term.args[1].value, str):
        return str(term.args[1].value)
    return None


def origin(term: Term) -> Term:
    """The value that a tensor is a view of: without casts, copies, reshapes and single indices."""
    while True:
        inner = plain(term)
        if inner.op in {"view", "elementwise"}:
            inner = inner.args[1]
        elif inner.op == "item" and inner.args[1].op == "const" and not isinstance(inner.args[1].value, str):
            inner = inner.args[0]
        if inner is term:
            return term
        term = inner
