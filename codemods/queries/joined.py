"""Rows of token lists: sums of lists, and cuts of them."""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import length_of
from shapecheck.codemods.engine.describe.rows import Change, Part, Rows, rows_of
from shapecheck.codemods.engine.terms import Term


def joined_rows(term: Term) -> Rows:
    """The rows of a value that is known to be a list: here a sum joins, it does not add."""
    if term.op == "item" and term.args[1].op == "slice":
        inner = joined_rows(term.args[0])
        return Rows(inner.parts, (*inner.changes, Change("slice", term, (term.args[1],))), inner.known)
    if term.op == "Add":
        first, second = joined_rows(term.args[0]), joined_rows(term.args[1])
        known = all(side.known and (len(side.parts) == 1 or not side.changes) for side in (first, second))
        return Rows((*first.flat, *second.flat), (), known)
    if term.op in {"tensor", "cast", "copy"}:
        return joined_rows(term.args[0])
    return rows_of(term)


def counted_rows(term: Term) -> tuple[Part, ...]:
    """The rows for which a list was made: `[-100] * len(prompt) + answer` has an entry for each of prompt and answer.

    Empty where no part of the list was made by a length.
    """
    parts = list(_counted(term))
    return tuple(part for part, _ in parts) if len(parts) > 1 and any(by_length for _, by_length in parts) else ()


def _counted(term: Term) -> Iterator[tuple[Part, bool]]:
    if term.op in {"tensor", "cast", "copy"}:
        yield from _counted(term.args[0])
    elif term.op == "Add":
        yield from _counted(term.args[0])
        yield from _counted(term.args[1])
    elif term.op == "Mult" and term.args[0].op == "list" and (length := length_of(term.args[1])) is not None:
        yield from ((part, True) for part in length.rows.flat)
    else:
        yield from ((part, False) for part in rows_of(term).flat)
