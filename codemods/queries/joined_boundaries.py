"""What boundaries were joined from: zeros, starts, a total."""

from dataclasses import dataclass

from shapecheck.codemods.engine.describe.bounds import first_is_zero
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term

_LISTS = {"list", "tuple", "each", "append", "extend", "rounds"}


@dataclass(frozen=True)
class Joined:
    """The pieces in order, each a list of numbers; `unique`: repeated numbers were dropped in the end."""

    pieces: tuple[Term, ...]
    unique: bool


def joined(term: Term) -> Joined:
    """The pieces of a value; a value that was not joined is its only piece."""
    term, unique = plain(term), False
    while term.op in {"unique", "sorted"}:
        unique = unique or term.op == "unique"
        term = plain(term.args[0])
    return Joined(tuple(_pieces(term)), unique)


def _pieces(term: Term) -> list[Term]:
    term = plain(term)
    make = term.pool.make
    match term.op:
        case "cat":
            return _tensors(term.args[1])
        case "list" | "tuple" if any(part.op == "star" for part in term.children()):
            return [
                piece
                for part in term.children()
                for piece in (_pieces(part.args[0]) if part.op == "star" else [make("list", part)])
            ]
        case "Add" if {plain(side).op for side in term.args} & _LISTS:
            return [*_pieces(term.args[0]), *_pieces(term.args[1])]
        case "extend":
            return [*_pieces(term.args[0]), *_pieces(term.args[1])]
        case "append":
            return [*_pieces(term.args[0]), make("list", term.args[1])]
        case "pad":
            return _padded(term)
        case "store":
            return _stored(term)
    return [term]


def _tensors(parts: Term) -> list[Term]:
    """The pieces of a list of tensors, one after the other."""
    match parts.op:
        case "list" | "tuple":
            return [
                piece
                for part in parts.children()
                for piece in (_tensors(part.args[0]) if part.op == "star" else _pieces(part))
            ]
        case "Add" | "extend":
            return [*_tensors(parts.args[0]), *_tensors(parts.args[1])]
        case "append":
            return [*_tensors(parts.args[0]), *_pieces(parts.args[1])]
    return [parts]


def _padded(term: Term) -> list[Term]:
    source, amounts, value = term.args
    ends = [part.value for part in amounts.args] if amounts.op in {"tuple", "list"} else []
    if len(ends) != 2 or not all(type(end) is int and end >= 0 for end in ends):
        return [term]
    filler = [term.pool.make("list", value)]
    return [*filler * ends[0], *_pieces(source), *filler * ends[1]]


def _stored(term: Term) -> list[Term]:
    """A buffer of which entries 1 to the last or last but one are set, and perhaps the last."""
    base, index, value = term.args
    make = term.pool.make
    if index.is_const(-1):
        inner = _pieces(base)
        if base.op == "pad" and len(inner) > 1:
            inner.pop()  # the filler that gets its value now
        return [*inner, make("list", value)] if len(inner) > 1 else [term]
    if index.op != "slice" or not index.args[0].is_const(1) or not first_is_zero(base):
        return [term]
    return [make("list", term.pool.const(0)), *_pieces(value)]
