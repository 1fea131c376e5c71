"""The values that rows come from, one step at a time: through calls of modules and loops over layers."""

import re
from collections.abc import Iterator

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.rearranged import gather_of, numbers

_FIRST = {
    "cast",
    "host",
    "moved",
    "copy",
    "typed_like",
    "pad",
    "entered",
    "attr",
    "tensor",
    "flattened",
    "star",
    "stack_of_scalars",
}
_SECOND = {"view", "elementwise", "cat", "stack"}
_FINDS = 200
_GATHERS = {".gather", "torch.gather", "torch.take_along_dim"}


def chain(term: Term) -> Iterator[Term]:
    """A value and what its rows come from, last one first; of a call its first argument."""
    for _ in range(_FINDS):
        yield term
        source = came_from(term)
        if source is None:
            return
        term = source


def came_from(term: Term) -> Term | None:
    """The value that the rows of a value come from; None where that is unknown."""
    found = gathered(term)
    if found is not None:
        return found[0]
    match term.op:
        case "call":
            return _given(term)
        case "rounds":
            before, after, _ = term.args
            return before if any(step.op == "round" for step in chain(after)) else None
        case "dict_of" | "last_round" | "each":
            inner = term.args[0]
            return _of(inner.args[-1] if inner.op == "tuple" else inner)
        case "elem" if (whole := _whole_of(term.args[0])) is not None:
            return whole
        case "elem" if term.args[0].op not in {"values", "keys", "parameter", "arange"}:
            return _of(term.args[0])
        case "item":
            return _of(term.args[0])
        case "list" | "tuple" if len(term.args) == 1:
            return _of(term.args[0])
        case op if op in _FIRST:
            return _of(term.args[0])
        case op if op in _SECOND:
            return _of(term.args[1])
    return None


def gathered(term: Term) -> tuple[Term, Term] | None:
    """The rows and the order, where a value is rows picked by it: at once, piece by piece or one by one."""
    found = gather_of(term)
    if found is not None and found[1].op not in {"elem", "item"}:
        return found
    if term.op == "item":
        index = term.args[1].args[0] if term.args[1].op == "tuple" and term.args[1].args else term.args[1]
        order = _piece_of(index)
        if order is not None:
            return term.args[0], numbers(order)
        # rows[order, :width]
        whole = term.args[1].op != "tuple" or all(part.op == "slice" for part in term.args[1].args[1:])
        if whole and _is_rows(picked := numbers(index)):
            return term.args[0], picked
    if term.op == "call" and term.args[0] in _GATHERS and len(term.args) == 4 and _of(term.args[2]) is not None:
        index = _expanded(term.args[3])
        if term.args[2].is_const(0) and index is not None:
            return term.args[1], numbers(index)
    if term.op == "picked" and term.args[1].is_const(0) and (order := _piece_of(term.args[2])) is not None:
        return term.args[0], numbers(order)
    return None


def _expanded(index: object) -> Term | None:
    """The order that `gather` takes, without the features that it was repeated for."""
    while isinstance(index, Term) and (index.op == "view" or (index.op == "item" and index.args[1].op == "tuple")):
        if index.op == "item" and not any(part.is_const(None) for part in index.args[1].args):
            return None
        index = index.args[1 if index.op == "view" else 0]
    return index if isinstance(index, Term) and _is_rows(numbers(index)) else None


def _whole_of(pieces: Term) -> Term | None:
    """The rows that a split cuts one after the other; None for features side by side."""
    while pieces.op == "copy":
        pieces = pieces.args[0]
    cuts = pieces.op in {"split", "chunk"} and any(_of(axis) and axis.is_const(0) for axis in pieces.args[2:])
    return _of(pieces.args[0]) if cuts else None


def _piece_of(index: Term) -> Term | None:
    """The order whose pieces or items an index takes in turn."""
    index = numbers(index)
    if index.op == "elem":
        source: Term = index.args[0]
        return source.args[0] if source.op in {"split", "chunk"} else _piece_of(source) or source
    if index.op == "item" and index.args[1].op == "slice" and not all(end.is_const(None) for end in index.args[1].args):
        order: Term = index.args[0]
        return order
    return None


def _is_rows(index: Term) -> bool:
    """Whether an index may hold row numbers: one of several results, an argument, an order."""
    return index.op in {"parameter", "argsort"} or (index.op == "item" and index.args[1].op == "const")


def _of(source: object) -> Term | None:
    return source if isinstance(source, Term) else None


def _given(call: Term) -> Term | None:
    """The first argument of a call, or its only keyword."""
    if _OTHER_ROWS.search(str(call.args[0]).rpartition(".")[2]) is not None:
        return None
    given = [arg for arg in call.args[1:] if isinstance(arg, Term)]
    if str(call.args[0]).startswith("."):
        given = given[1:]
    if not given or given[0].op == "splat":
        return None
    if given[0].op != "keyword":
        return given[0]
    rows = [arg.args[1] for arg in given if arg.args[0] in _ROWS]
    return rows[0] if rows else given[0].args[1] if len(given) == 1 else None


# Calls that take the rows for their dtype or number only, as `rotary(hidden_states, position_ids)`.
_OTHER_ROWS = re.compile(
    r"rot|rope|pos|freq|mask|ind|bias|len|table|like|arange|conv|pool|sample|merge_cache|size|count"
)
_ROWS = {"hidden_states", "x", "input_ids", "inputs_embeds", "input", "inputs", "hidden"}
