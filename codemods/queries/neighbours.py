"""Comparisons of each row with the one before it."""

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term


def neighbours(current: Term, previous: Term) -> Term | None:
    """The values, if the first term is an element of them and the second the element before it."""
    if current.op == previous.op == "elem":
        current, previous = current.args[0], previous.args[0]
        if current.op == "item" and current.args[0] is previous and starts_at_one(current.args[1]):
            whole: Term = previous  # zip(p, p[1:])
            return whole
    if current.op != "item" or previous.op != "item" or current.args[0] is not previous.args[0]:
        return None
    base: Term = current.args[0]
    now, before = _last_axis(current.args[1]), _last_axis(previous.args[1])
    if now.op == "slice" and before.op == "slice":
        low, high, _ = before.args
        ends = high.is_const(-1) and (low.is_const(None) or low.is_const(0))
        return base if ends and starts_at_one(now) else None
    if _follows(now, before):
        return base
    if now.is_const(1) and before.is_const(0) and base.op == "elem" and base.args[0].op == "call":
        path, *given = base.args[0].args
        if str(path).endswith("pairwise") and len(given) == 1:
            paired: Term = given[0]
            return paired
    return None


def difference_of(term: Term) -> Term | None:
    """`x` if the term is `x.diff()` or `x[1:] - x[:-1]`."""
    term = plain(term)
    if term.op == "diff":
        source: Term = term.args[0]
        return source
    return neighbours(plain(term.args[0]), plain(term.args[1])) if term.op == "Sub" else None


def starts_at_one(index: Term) -> bool:
    """Whether an index is `1:`, also behind axes that are taken whole."""
    index = _last_axis(index)
    return index.op == "slice" and bool(index.args[0].is_const(1) and index.args[1].is_const(None))


def _follows(now: Term, before: Term) -> bool:
    """Whether one index is the other plus 1."""
    if before.op == "Sub" and before.args[0] is now:
        return bool(before.args[1].is_const(1))
    return now.op == "Add" and any(now.args[at] is before and now.args[1 - at].is_const(1) for at in (0, 1))


def _last_axis(index: Term) -> Term:
    if index.op == "tuple" and index.args and all(_is_whole(part) for part in index.args[:-1]):
        last: Term = index.args[-1]
        return last
    return index


def _is_whole(part: Term) -> bool:
    return part.is_const(...) or (part.op == "slice" and all(end.is_const(None) for end in part.args))
