"""Which rows the per-row values of a function cover, and the rows that they travel with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from shapecheck.codemods.compare import Difference, difference, worlds
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.describe.rows import Part, rows_of
from shapecheck.codemods.engine.describe.tags import PerRow, per_row_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.annotated import apart
from shapecheck.codemods.queries.companions import Company, companies
from shapecheck.codemods.queries.partings import first_round
from shapecheck.codemods.view import Argument, View

TAGS = frozenset({"tags", "tags_q", "tags_k", "positions"})
_NO_ROWS = TAGS | frozenset(
    [
        "bounds",
        "bounds_q",
        "bounds_k",
        "ends_q",
        "ends_k",
        "padded",
        "padded_q",
        "padded_k",
        "max",
        "max_q",
        "max_k",
        "lens",
        "lens_q",
        "lens_k",
    ]
)
_WRAPPERS = {
    "view": 1,
    "elementwise": 1,
    "cast": 0,
    "host": 0,
    "moved": 0,
    "copy": 0,
    "typed_like": 0,
    "tensor": 0,
    "pad": 0,
}
_BUILT = {
    "cat",
    "Add",
    "append",
    "extend",
    "list",
    "each",
    "flattened",
    "repeat_interleave",
    "full",
    "full_like",
    "arange",
    "Mult",
}


@dataclass(frozen=True, eq=False)
class Cover:
    """Per-row values and the rows that they travel with.

    Attributes:
        company: what they travel in.
        rows: the rows: several parts, or all samples in turn.
        row_term: their value, without branches.
        row_parts: the parts of the rows, in order.
        meta: the tags or positions.
        parts: the rows that these were made for, in order.
        per_row: how they were built, where it was piece by piece; None where they are joined from given tags.
        difference: how the two differ; None where they agree or nothing is certain.
    """

    company: Company
    rows: Argument
    row_term: Term
    row_parts: tuple[Part, ...]
    meta: Argument
    parts: tuple[Part, ...]
    per_row: PerRow | None
    difference: Difference | None


@lru_cache(maxsize=1)
def covers(view: View) -> tuple[Cover, ...]:
    """Every pair of rows and per-row values that travel together and are both understood."""
    return tuple(cover for company in companies(view) for cover in _of_company(view, company))


def _of_company(view: View, company: Company) -> Iterator[Cover]:
    described = [
        member for member in company.members if member.role in TAGS or _inner(member.term).op in {*_BUILT, "phi"}
    ]
    for meta in described:
        for rows in company.members:
            if (
                rows.role not in _NO_ROWS
                and rows.term is not meta.term
                and (rows.term.size > 2 or rows.term.op == "round")
                and not apart(view, company.call, rows.node, meta.node)
            ):
                found = list(_in_worlds(company, rows, meta))
                certain = [cover for cover in found if cover.difference is not None]
                # Of several conditions some may exclude each other: then only what all worlds agree on is certain.
                if found and (len(certain) == len(found) or (certain and len(found) <= 2)):
                    yield certain[0]
                elif found:
                    yield found[0]


def _in_worlds(company: Company, rows: Argument, meta: Argument) -> Iterator[Cover]:
    row_whole, meta_whole = _before_cut(first_round(rows.term), first_round(meta.term))
    for row_term, meta_term in worlds(row_whole, meta_whole, context=company.context):
        parts = packed_parts(row_term)
        if not parts:
            continue
        per_row = per_row_of(meta_term)
        if per_row is not None:
            yield Cover(company, rows, row_term, parts, meta, per_row.parts, per_row, difference(parts, per_row.parts))
        elif meta.role in TAGS:
            found = rows_of(meta_term)
            if found.known and not (len(found.parts) > 1 and found.changes):
                yield Cover(
                    company,
                    rows,
                    row_term,
                    parts,
                    meta,
                    found.flat,
                    None,
                    difference(_merged(parts), _merged(found.flat)),
                )


def packed_parts(term: Term) -> tuple[Part, ...]:
    """The parts of rows that were joined from several values or from all samples; empty for other values."""
    found = rows_of(term)
    parts = found.flat
    if not found.known or not parts or not (len(parts) > 1 or parts[0].each) or per_row_of(term) is not None:
        return ()
    if len(parts) > 1 and any(change.kind != "pad" for change in found.changes):
        return ()  # a cut or permutation of the whole: unknown what is left of the parts
    return parts


def _merged(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts, with the results of one call as one value: a tokenizer's ids and type ids have the same rows."""
    return tuple(
        replace(part, root=part.root.args[0])
        if part.root.op == "item" and part.root.args[0].op == "call" and isinstance(part.root.args[1].value, int)
        else part
        for part in parts
    )


def _inner(term: Term) -> Term:
    while term.op in _WRAPPERS or (term.op == "item" and term.args[1].op == "slice"):
        term = term.args[_WRAPPERS.get(term.op, 0)]
    return term


def _before_cut(rows: Term, meta: Term) -> tuple[Term, Term]:
    """Two values before a cut that both got, `x[:n]` and `y[:n]`; as they are where they got different ones."""
    one, other = plain(rows), plain(meta)
    same = one.op == other.op == "item" and one.args[1] is other.args[1] and one.args[1].op == "slice"
    if not same:
        return rows, meta
    # As tensors: a sum of lists is then no sum of numbers.
    return rows.pool.make("tensor", one.args[0]), rows.pool.make("tensor", other.args[0])
