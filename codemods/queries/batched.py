"""Fields of the same samples that were padded into batches, one of them cut in each sample."""

import re
from collections.abc import Iterator

from shapecheck.codemods.compare import worlds
from shapecheck.codemods.engine.describe.rows import Rows, rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.queries.partings import first_round
from shapecheck.codemods.queries.siblings import LeftOut, is_per_row, only_in
from shapecheck.codemods.view import Argument, View

# Of `prompt_input_ids`, the prompt.
_OF_PART = re.compile(
    r"(?!(?:input|token)_ids$|attention_mask$)(.+)_(input_ids|token_ids|ids|tokens|labels|attention_mask)$"
)
_TESTS = {"Eq", "Gt", "Lt", "GtE", "LtE", "not", "Invert", "cast"}


def not_cut(view: View) -> Iterator[LeftOut]:
    """The fields that meet a cut one, in one batch or item by item, without the cut."""
    if not any(call.name == "pad_sequence" for call in view.calls):
        return
    for field, other in (*_met(view), *_together(view)):
        for mine, others in worlds(first_round(field.term), first_round(other.term)):
            one, cut = _samples(mine), _samples(others)
            change = None if one is None or cut is None else only_in(one, cut)
            if change is not None:
                yield LeftOut(field, (other,), change)
                break


def _met(view: View) -> Iterator[tuple[Argument, Argument]]:
    """The operands of products and of `values.masked_fill(mask, 0)`, both ways."""
    for binding in view.bindings:
        for term in binding.value.walk():
            if term.op == "Mult":
                sides = term.args
            elif term.op == "elementwise" and term.args[0] == "masked_fill" and len(term.args) > 2:
                sides = term.args[1:3]
            else:
                continue
            one, other = (Argument("", _key(side), side, side.node or binding.node) for side in sides)
            yield one, other
            yield other, one


def _together(view: View) -> Iterator[tuple[Argument, Argument]]:
    for company in companies(view):
        members = [member for member in company.members if is_per_row(member)]
        yield from ((one, other) for one in members for other in members if one.term is not other.term)


def _samples(term: Term) -> Rows | None:
    """The rows of the samples of a padded batch, one after the other."""
    while term.op in _TESTS:
        term = term.args[0]
    if term.op == "elementwise":
        return _samples(term.args[1])
    if term.op != "call" or not str(term.args[0]).endswith("pad_sequence") or not term.parts:
        return None
    rows = rows_of(term.pool.make("cat", term.pool.const(0), term.parts[0]))
    return rows if all(_part_of(part.root) == "" for part in rows.parts) else None


def _key(term: Term) -> str:
    """The key under which the samples hold a field, for messages."""
    for inner in term.walk():
        if inner.op == "item" and isinstance(inner.args[1].value, str):
            return str(inner.args[1].value)
    return ""


def _part_of(root: Term) -> str | None:
    """What a key is a part of: `prompt` for `prompt_input_ids`; empty for the whole sample, None if unknown."""
    key = root.args[1].value if root.op == "item" else None
    found = _OF_PART.match(key) if isinstance(key, str) else None
    return None if not isinstance(key, str) else "" if found is None else found[1]
