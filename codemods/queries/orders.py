"""Which index is an order of all rows, and which one its inverse."""

import re

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.rearranged import numbers
from shapecheck.codemods.view import View

_ORDER = re.compile(
    r"(?:^|_)(?:order|perm|permutation|sort_idx|sorted_idx|sort_indices|sorted_indices|sort_index|window_index)$"
)
_INVERSE = re.compile(r"(?:^|_)(?:reverse|inverse|inv|invert|restore|undo|unsort)(?:_|$)")


def is_order(view: View, index: Term) -> bool:
    """Whether an index holds every row once, by how it was made or by its name."""
    index = numbers(index)
    if index.op == "argsort" or (index.op == "sorted" and index.args[0].op in {"arange", "range"}):
        return True
    if index.op == "parameter":
        return _ORDER.search(index.args[0]) is not None
    if index.op not in {"item", "call"}:
        return False
    return any(binding.value is index and _ORDER.search(binding.target) is not None for binding in view.bindings)


def inverse_of(index: Term) -> Term | None:
    """The order that an index undoes: `argsort(order)`, `get_reverse_idx(order)`."""
    index = numbers(index)
    if index.op == "argsort" and len(index.args) == 1:
        return numbers(index.args[0])
    if index.op == "call" and _INVERSE.search(str(index.args[0]).rpartition(".")[2]) is not None:
        for arg in index.args[1:]:
            if isinstance(arg, Term) and arg.op not in {"self", "keyword", "splat"}:
                return _unnested(numbers(arg))
    return None


def _unnested(order: Term) -> Term:
    """The order whose parts a list joins: `chain.from_iterable(order)`, `[i for part in order for i in part]`."""
    if order.op == "flattened":
        return numbers(order.args[0])
    if order.op == "each" and len(order.args) == 2 and order.args[0].op == "star":
        inner, source = order.args[0].args[0], order.args[1]
        part = order.pool.make("elem", source)
        if inner is part or (inner.op == "each" and inner.args == (order.pool.make("elem", part), part)):
            return numbers(source)
    return order
