"""Changes of rows that do nothing because the same was done just before."""

from collections.abc import Sequence

from shapecheck.codemods.engine.describe.rows import Change
from shapecheck.codemods.engine.terms import Term

_IDEMPOTENT = {"sort", "filter", "items", "slice"}


def effective(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The changes without those that certainly leave the rows as they are.

    Such are a second cut to the same or a larger limit, and the same filter or order once more.
    """
    kept: list[Change] = []
    for change in changes:
        if not kept or not _does_nothing(change, kept[-1]):
            kept.append(change)
    return tuple(kept)


def _does_nothing(change: Change, before: Change) -> bool:
    if change.kind != before.kind or change.kind not in _IDEMPOTENT or len(change.detail) != len(before.detail):
        return False
    if change.kind in {"sort", "filter"}:
        pairs = zip(change.detail, before.detail, strict=True)
        return all(isinstance(one, Term) and _of_items(one) is _of_items(other) for one, other in pairs)
    # A range that `narrow` gives is no slice; of several axes it is unknown which one is cut.
    if len(change.detail) != 1 or change.term.op != before.term.op:
        return False
    return _reaches(change.detail[0], before.detail[0])


def _of_items(test: Term) -> Term:
    """A test or key in terms of the items of the unfiltered collection."""
    known: dict[Term, Term] = {}
    for inner in test.walk():
        if inner.op == "elem":
            source = inner
            while (
                source.op == "elem" and source.args[0].op == "each" and source.args[0].args[0] is _item(source.args[0])
            ):
                source = _item(source.args[0])
            known[inner] = source
    return test.pool.substitute(test, known)


def _item(comprehension: Term) -> Term:
    return comprehension.pool.make("elem", comprehension.args[1])


def _reaches(cut: Term, before: Term) -> bool:
    """Whether a slice keeps all that another one left: `[:n]` after `[:n]` or `[:m]`, `[-n:]` after `[-n:]`."""
    if cut.op != "slice" or before.op != "slice" or not (cut.args[2].is_const(None) and before.args[2].is_const(None)):
        return False
    (low, high), (low_before, high_before) = cut.args[:2], before.args[:2]
    if high.is_const(None) and high_before.is_const(None):
        return low is low_before and _is_negative(low)
    if not all(start.is_const(None) or start.is_const(0) for start in (low, low_before)) or _is_negative(high):
        return False
    if high.op == high_before.op == "const" and isinstance(high.value, int) and isinstance(high_before.value, int):
        return 0 <= high_before.value <= high.value
    return high is high_before


def _is_negative(end: Term) -> bool:
    return end.op == "USub" or (end.op == "const" and isinstance(end.value, int) and end.value < 0)
