"""Whether lengths were made longer: by further rows, or by rounding up."""

from shapecheck.codemods.engine.describe.lengths import Length, length_of, plain
from shapecheck.codemods.engine.terms import Term

_DROPPING = {"slice", "filter", "items", "unpad"}


def grown(longer: Term, shorter: Term) -> bool:
    """Whether `longer` is `shorter` plus something, length by length."""
    longer, shorter = plain(longer), plain(shorter)
    if longer is shorter:
        return False
    more, fewer = length_of(longer), length_of(shorter)
    if more is not None and fewer is not None:
        return _has_more_parts(more, fewer)
    match longer.op:
        case "Add":
            left, right = (plain(part) for part in longer.args)
            if shorter.op == "Add" and _has_more_addends(longer, shorter):
                return True
            return (_starts(left, shorter) and _adds(right)) or (_starts(right, shorter) and _adds(left))
        case "Mult" if any(_rounded_up(a, b, shorter) for a, b in (longer.args, reversed(longer.args))):
            return True
        case "each" if len(longer.args) == 2:
            element = longer.args[0]
            if shorter.op == "each" and len(shorter.args) == 2:
                # Items of one collection are one term, also where the collection is zipped with others.
                return grown(element, shorter.args[0])
            return grown(element, shorter.pool.make("elem", shorter))
    return _divided(shorter, longer)


def never_longer(shorter: Term, longer: Term) -> bool:
    """Whether lengths are others that were capped, or measured after rows were dropped, or that the others grew of."""
    shorter, longer = plain(shorter), plain(longer)
    if shorter is longer or grown(longer, shorter):
        return True
    if shorter.op == "min":
        capped = shorter.args[0] if len(shorter.args) == 1 and shorter.args[0].op in {"list", "tuple"} else shorter
        return any(never_longer(arg, longer) for arg in capped.children())
    if shorter.op == longer.op == "each":
        return never_longer(shorter.args[0], longer.args[0])
    less, more = length_of(shorter), length_of(longer)
    if less is None or more is None or not (less.rows.known and more.rows.known):
        return False
    one, other = less.rows.flat, more.rows.flat
    if len(one) != 1 or len(other) != 1 or one[0].root is not other[0].root:
        return False
    done = len(other[0].changes)
    rest = one[0].changes[done:]
    return one[0].changes[:done] == other[0].changes and all(change.kind in _DROPPING for change in rest)


def _has_more_addends(longer: Term, shorter: Term) -> bool:
    """Whether a sum has all numbers of another one, and further ones."""
    rest = _addends(longer)
    for addend in _addends(shorter):
        if addend not in rest:
            return False
        rest.remove(addend)
    return bool(rest) and all(_adds(addend) for addend in rest)


def _addends(term: Term) -> list[Term]:
    return [addend for arg in term.args for addend in _addends(plain(arg))] if term.op == "Add" else [term]


def _divided(part: Term, whole: Term) -> bool:
    """Whether lengths are others divided: `n // m`, or factors of a product, as `(h // m) * (w // m)` of `h * w`."""
    part, whole = plain(part), plain(whole)
    if part.op == "FloorDiv":
        divided = plain(part.args[0])
        return not part.args[1].is_const(1) and (divided is whole or _divided(divided, whole))
    if part.op != "Mult" or whole.op != "Mult":
        return False
    factors, wholes = _factors(part), _factors(whole)
    kept = [factor for factor in factors if factor in wholes]
    rest = [factor for factor in wholes if factor not in kept]
    quotients = [factor for factor in factors if factor not in kept]
    return (
        len(factors) == len(wholes)
        and bool(quotients)
        and len(rest) == len(quotients)
        and all(_divided(one, other) for one, other in zip(quotients, rest, strict=True))
    )


def _factors(term: Term) -> list[Term]:
    return [factor for arg in term.args for factor in _factors(plain(arg))] if term.op == "Mult" else [term]


def _has_more_parts(longer: Length, shorter: Length) -> bool:
    """Whether one value was joined from the rows of the other and further ones."""
    keys = [part.key for part in longer.rows.flat]
    wanted = [part.key for part in shorter.rows.flat]
    return longer.rows.known and shorter.rows.known and len(keys) > len(wanted) and all(key in keys for key in wanted)


def _starts(term: Term, shorter: Term) -> bool:
    return term is shorter or grown(term, shorter)


def _adds(term: Term) -> bool:
    """Whether adding the value cannot make lengths shorter, as far as one can see."""
    if term.op == "const":
        return bool(isinstance(term.value, int) and term.value > 0)
    return term.op not in {"USub", "Sub"}


def _rounded_up(quotient: Term, unit: Term, shorter: Term) -> bool:
    """`(n + unit - 1) // unit * unit`, `-(-n // unit) * unit` and `ceil(n / unit) * unit`."""
    if quotient.op == "call" and quotient.args[0].rpartition(".")[2] == "ceil" and len(quotient.args) == 2:
        ratio = plain(quotient.args[1])
        return bool(ratio.op == "Div" and ratio.args[1] is unit and plain(ratio.args[0]) is shorter)
    if quotient.op == "FloorDiv" and quotient.args[1] is unit:
        inner = quotient.args[0]
        while inner.op in {"Add", "Sub"}:
            if plain(inner.args[0]) is shorter:
                return bool(inner.op == "Add")
            inner = inner.args[0]
    if quotient.op == "USub" and quotient.args[0].op == "FloorDiv" and quotient.args[0].args[1] is unit:
        negative = quotient.args[0].args[0]
        return bool(negative.op == "USub" and plain(negative.args[0]) is shorter)
    return False
