"""Positions that go on counting from one sample to the next."""

import ast
import re
from collections.abc import Iterable, Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import length_of, plain
from shapecheck.codemods.engine.describe.rows import rows_of
from shapecheck.codemods.engine.describe.tags import per_row_of
from shapecheck.codemods.engine.events import Binding
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.view import View, name_of

_LAST = re.compile(r"\w+")
_SAMPLES = frozenset({"lens", "lens_q", "bounds", "bounds_q", "ends_q", "tags", "tags_q"})
_FIRST = {"cast", "host", "moved", "copy", "typed_like", "Sub", "Mult", "Eq", "Gt", "GtE", "Lt", "not"}


def run_on(view: View) -> Iterator[tuple[Binding, Term]]:
    """Positions of a loop that go on where the last round ended, beside a length or boundary of each round's sample."""
    names = {
        name_of(member.node)
        for company in companies(view)
        for member in company.members
        if member.role == "positions" and isinstance(member.node, ast.expr)
    }
    for binding in view.bindings:
        piece = _added(binding.value)
        if piece is None or (_role(view, binding.target) != "positions" and binding.target not in names):
            continue
        counted = _continued(view, piece, binding)
        if counted is not None and _lists_samples(view, counted, binding):
            yield binding, counted


def _role(view: View, target: str) -> str | None:
    """The role of a name, attribute or key, as a binding writes it."""
    return view.catalogue.role_of(_LAST.findall(target)[-1])


def _added(value: Term) -> Term | None:
    """What a list got in a round."""
    if value.op not in {"Add", "append", "extend"} or value.args[0].op != "round":
        return None
    piece: Term = value.args[1]
    while piece.op in {"copy", "tensor", "cast", "list"} and len(piece.args) >= 1:
        if piece.op == "list" and (len(piece.args) != 1 or piece.args[0].op != "star"):
            return None
        piece = piece.args[0].args[0] if piece.op == "list" else piece.args[0]
    return piece


def _continued(view: View, piece: Term, binding: Binding) -> Term | None:
    """The number of rows that a piece counts, where it begins at the rows of all rounds before."""
    if piece.op == "arange" and piece.args[2].is_const(1) and plain(piece.args[1]).op == "Add":
        start, end = plain(piece.args[0]), plain(piece.args[1])
        if plain(end.args[0]) is start:
            count = plain(end.args[1])
        elif plain(end.args[1]) is start:
            count = plain(end.args[0])
        else:
            return None
    elif (
        piece.op == "each"
        and piece.args[0].op == "Add"
        and piece.args[1].op == "arange"
        and piece.args[1].args[0].is_const(0)
    ):
        offset = [side for side in piece.args[0].args if side is not piece.pool.make("elem", piece.args[1])]
        if len(offset) != 1:
            return None
        start, count = plain(offset[0]), plain(piece.args[1].args[1])
    else:
        return None
    return count if _counts_rounds(view, start, count) else None


def _counts_rounds(view: View, start: Term, count: Term) -> bool:
    """Whether a number is the sum of the lengths of all rounds before."""
    if start.op == "item" and start.args[1].is_const(-1):
        return _is_running(view, start, count)
    grown = start.args[0] if start.op == "len" else start
    if grown.op != "round":
        return False
    for binding in view.bindings:
        value = binding.value
        if value.op not in {"Add", "extend"} or value.args[0] is not grown:
            continue
        added = plain(value.args[1])
        if start.op != "len":
            return added is count
        length = length_of(count)
        return length is not None and rows_of(added).parts == length.rows.parts
    return False


def _is_running(view: View, last: Term, count: Term) -> bool:
    """Whether a number is the last entry of boundaries that each round adds its length to."""
    for binding in view.bindings:
        value = binding.value
        if value.op == "append" and value.args[0] is last.args[0]:
            end = plain(value.args[1])
            return end.op == "Add" and {plain(side) for side in end.args} == {last, count}
    return False


def _lists_samples(view: View, count: Term, positions: Binding) -> bool:
    """Whether the length of each round's sample, or its end, is kept beside the positions."""
    for binding in view.bindings:
        value = binding.value
        if value.op != "append" or value.args[0].op != "round" or binding.context != positions.context:
            continue
        item = plain(value.args[1])
        if item is count or (item.op == "Add" and count in {plain(side) for side in item.args}):
            return _role(view, binding.target) in _SAMPLES or item is count
    return False


def counted_through(term: Term, beside: Iterable[Term]) -> Term | None:
    """The mask of several samples, numbered or joined `beside`, that positions count in one go."""
    while term.op in _FIRST or term.op == "elementwise":
        term = term.args[1 if term.op == "elementwise" else 0]
    if term.op != "cumsum" or not (term.args[1].is_const(-1) or term.args[1].is_const(1)):
        return None
    mask = term.args[0]
    while mask.op in _FIRST or mask.op == "elementwise":
        mask = mask.args[1 if mask.op == "elementwise" else 0]
    if mask.op == "call" and str(mask.args[0]).endswith("pad_sequence") and mask.parts:
        if mask.parts[0].op != "each":
            return None
        mask = mask.parts[0].args[0]
    tags = per_row_of(mask)
    parts = rows_of(mask).flat if tags is None else tags.parts
    several = len(parts) == 1 and parts[0].each and tags is not None and bounds_of(mask) is None
    return mask if several and (_by_number(mask) or any(rows_of(rows).flat == parts for rows in beside)) else None


def _by_number(mask: Term) -> bool:
    """Whether the values tell the samples apart: filled with the number of each."""
    return any(
        inner.op in {"full", "full_like"}
        and any(isinstance(arg, Term) and arg.op in {"index_in", "Add"} for arg in inner.args)
        for inner in mask.walk()
    )
