"""Lengths that were rounded up to a multiple."""

from shapecheck.codemods.engine.describe.lengths import length_of, plain
from shapecheck.codemods.engine.terms import Term

_CEIL = {"ceil", "cdiv", "ceil_div", "ceildiv"}


def rounded(term: Term) -> Term | None:
    """The length that a value is the next multiple of: `(n + m - 1) // m * m`, `n + -n % m`; None for another value."""
    term = plain(term)
    match term.op:
        case "Mult":
            for quotient, unit in (term.args, reversed(term.args)):
                found = _ceiling(plain(quotient), unit)
                if found is not None:
                    return found
        case "Add":
            for length, rest in (term.args, reversed(term.args)):
                if length_of(length) is not None and _is_rest(plain(rest), plain(length)):
                    return plain(length)
    return None


def _ceiling(term: Term, unit: Term) -> Term | None:
    """`n` if the term is n / unit, rounded up."""
    match term.op:
        case "FloorDiv" if term.args[1] is unit:
            above = plain(term.args[0])
            while above.op in {"Add", "Sub"}:
                above = plain(above.args[0])
                if length_of(above) is not None:
                    return above
        case "USub":
            inner = plain(term.args[0])
            if inner.op == "FloorDiv" and inner.args[1] is unit and inner.args[0].op == "USub":
                length = plain(inner.args[0].args[0])
                return length if length_of(length) is not None else None
        case "call" if str(term.args[0]).rpartition(".")[2] in _CEIL:
            for inner in term.walk():
                if length_of(inner) is not None:
                    return inner
    return None


def _is_rest(term: Term, length: Term) -> bool:
    """Whether a value is what a length lacks to a multiple: `-n % m`, `(m - n % m) % m`."""
    if term.op != "Mod":
        return False
    left = plain(term.args[0])
    if left.op == "USub":
        return plain(left.args[0]) is length
    if left.op != "Sub" or left.args[0] is not term.args[1]:
        return False
    inner = plain(left.args[1])
    return inner.op == "Mod" and plain(inner.args[0]) is length
