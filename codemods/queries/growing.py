"""Lists that a loop extends in every round, and the offsets that run beside them."""

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.view import View

_GROWING = {"append", "extend", "Add"}


def grows(term: Term) -> bool:
    """Whether a value holds what all rounds so far have added, so that its length is a running sum."""
    while term.op in _GROWING:
        term = term.args[0]
        if term.op == "round":
            return True
    return False


def is_offset(view: View, term: Term) -> bool:
    """Whether a value is the sum of the lengths of the rounds before, from 0."""
    if term.op != "round":
        return False
    values = [binding.value for binding in view.bindings if binding.target == term.args[0]]
    if len(values) != 2 or not values[0].is_const(0):
        return False
    later = values[1]
    return later.op == "Add" and later.args[0] is term and plain(later.args[1]).op in {"len", "shape", "numel"}
