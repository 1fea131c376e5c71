"""Places that a comparison finds: where segments start, where neighbours differ, which tokens end a document."""

from dataclasses import dataclass

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.names import origin, outer_name
from shapecheck.codemods.queries.neighbours import difference_of, neighbours, starts_at_one
from shapecheck.codemods.queries.words import words
from shapecheck.codemods.view import View

_COMPARISONS = {"Eq", "Lt", "Gt", "LtE", "GtE"}
_LAST_TOKENS = {"eos", "eod", "eot"}


@dataclass(frozen=True)
class Located:
    """Places in rows.

    Attributes:
        term: the places.
        kind: `starts` (position 0), `gaps` (two neighbours differ), `ends` (the last token of a document).
        rows: the values that were compared.
        early: how many places before the start of a segment they lie; negative: behind it.
    """

    term: Term
    kind: str
    rows: Term
    early: int


@dataclass(frozen=True)
class _Found:
    kind: str
    rows: Term
    early: int


def located(term: Term, view: View) -> Located | None:
    """The places that a value is; None where it is something else."""
    places, moved = _moved(plain(term))
    found = None
    match places.op:
        case "nonzero":
            found = _in_vector(places.args[0], view)
        case "item" if places.args[0].op == "nonzero" and _is_column(places.args[1]):
            found = _in_vector(places.args[0].args[0], view)  # x.nonzero()[0] of numpy, x.nonzero()[:, 0]
        case "item" if plain(places.args[0]).op == "arange" and plain(places.args[0]).args[0].is_const(0):
            found = _in_vector(places.args[1], view)
        case "each" if len(places.args) == 3:
            index, inner = _moved(places.args[0])
            moved += inner
            found = _in_loop(index, places.args[2], view)
    return None if found is None else Located(places, found.kind, found.rows, found.early - moved)


def _moved(term: Term) -> tuple[Term, int]:
    """A value without the constant that was added to it."""
    moved = 0
    while term.op in {"Add", "Sub"}:
        sides = [at for at in (0, 1) if type(term.args[at].value) is int]
        if len(sides) != 1 or (term.op == "Sub" and sides[0] == 0):
            break
        amount = term.args[sides[0]].value
        moved += amount if term.op == "Add" else -amount
        term = plain(term.args[1 - sides[0]])
    return term, moved


def _is_column(index: Term) -> bool:
    if index.op == "tuple" and len(index.args) == 2:
        return bool(index.args[0].op == "slice" and index.args[1].is_const(0))
    return index.is_const(0)


def _condition(term: Term) -> tuple[Term, bool]:
    """A comparison without casts and views, and whether it was negated."""
    negated = False
    while True:
        inner = plain(term)
        if inner.op in {"not", "Invert"}:
            inner, negated = inner.args[0], not negated
        elif inner.op == "elementwise" or (inner.op == "cast" and inner.args[1] == "bool"):
            inner = inner.args[1 if inner.op == "elementwise" else 0]
        if inner is term:
            return term, negated
        term = inner


def _in_vector(condition: Term, view: View) -> _Found | None:
    comparison, negated = _condition(condition)
    behind = 0
    if comparison.op == "item" and starts_at_one(comparison.args[1]):
        (comparison, again), behind = _condition(comparison.args[0]), 1  # (positions == 0)[1:]
        negated = negated != again
    if comparison.op not in _COMPARISONS:
        return None
    left, right = (plain(side) for side in comparison.args)
    if comparison.op == "Eq" and not negated:
        for rows, value in ((left, right), (right, left)):
            if value.is_const(0):
                whole = rows.args[0] if rows.op == "item" and starts_at_one(rows.args[1]) else None
                if whole is not None and is_positions(whole, view):
                    return _Found("gaps", whole, 1 + behind)
                if is_positions(rows, view):
                    return _Found("gaps" if behind else "starts", rows, behind)
            if _is_last_token(value) and not behind:
                return _Found("ends", rows, 1)
    if behind:
        return None
    for one, other in ((left, right), (right, left)):
        rows_ = difference_of(one) if type(other.value) is int else neighbours(one, _moved(other)[0])
        if rows_ is not None:
            return _Found("gaps", rows_, 1)
    return None


def _in_loop(index: Term, condition: Term, view: View) -> _Found | None:
    comparison, negated = _condition(condition)
    if comparison.op not in _COMPARISONS:
        return None
    sides = [_at(side, index) for side in comparison.args]
    if sides[0] is not None and sides[1] is not None and sides[0][0] is sides[1][0]:
        (rows, one), (_, other) = sides[0], sides[1]
        return _Found("gaps", rows, max(one, other)) if abs(one - other) == 1 else None
    if comparison.op != "Eq" or negated:
        return None
    for side, value in ((sides[0], comparison.args[1]), (sides[1], comparison.args[0])):
        if side is not None and value.is_const(0) and is_positions(side[0], view):
            return _Found("starts", *side)
        if side is not None and _is_last_token(value):
            return _Found("ends", side[0], side[1] + 1)
    return None


def _at(term: Term, index: Term) -> tuple[Term, int] | None:
    """`x` and `k` if the term is `x[index + k]`."""
    term, _ = _moved(plain(term))
    if term.op == "elem" and index.op == "index_in" and index.args[0] is term.args[0]:
        return term.args[0], 0
    if term.op != "item":
        return None
    at, moved = _moved(term.args[1])
    return (term.args[0], moved) if at is index and index.op in {"elem", "index_in"} else None


def is_positions(rows: Term, view: View) -> bool:
    """Whether rows are position ids by their name, as they came or with filler behind them."""
    rows = origin(rows)
    while (inner := _unfilled(rows)) is not None:
        rows = origin(inner)
    name = outer_name(rows)
    return name is not None and view.catalogue.role_of(name) == "positions"


def _unfilled(rows: Term) -> Term | None:
    if rows.op == "cat" and rows.args[1].op in {"list", "tuple"} and rows.args[1].args:
        first: Term = rows.args[1].args[0]
        return None if first.op == "star" else first
    return rows.args[0] if rows.op in {"pad", "Add"} else None


def _is_last_token(value: Term) -> bool:
    """Whether a value is the token that ends a document, by its name."""
    value = plain(value)
    name = value.args[0] if value.op == "global" else outer_name(value)
    return name is not None and not _LAST_TOKENS.isdisjoint(words(name))
