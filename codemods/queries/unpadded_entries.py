"""Entries of one batch that are cut into the same chunks, some of them without the padding that others got first."""

from collections.abc import Iterator
from dataclasses import dataclass

from shapecheck.codemods.compare import sample_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.rearranged import within
from shapecheck.codemods.view import View

_CUTTING = ("chunk", "tensor_split")


@dataclass(frozen=True, eq=False)
class UnpaddedEntry:
    """An entry of a batch that was cut as it came.

    Attributes:
        entry: the entry.
        cut: its chunks.
        padding: the padding of another entry that was cut alike.
        padded_cut: the chunks of that entry.
    """

    entry: Term
    cut: Term
    padding: Term
    padded_cut: Term


def unpadded_entries(view: View) -> Iterator[UnpaddedEntry]:
    """The entries without padding, where two entries or more of the same batch have it."""
    cuts: dict[tuple[Term, ...], list[Term]] = {}
    for op in _CUTTING:
        for chunk in view.module.pool.by_op.get(op, ()):
            if isinstance(chunk.args[0], Term) and within(view, chunk):
                cuts.setdefault(chunk.args[1:], []).append(chunk)
    for chunks in cuts.values():
        padded = [chunk for chunk in chunks if _is_padded(chunk)]
        batches = {_batch(chunk) for chunk in padded}
        for chunk in chunks:
            entry = plain(chunk.args[0])
            if len(padded) > 1 and _is_entry(entry) and batches == {_batch(chunk)}:
                yield UnpaddedEntry(entry, chunk, plain(padded[0].args[0]), padded[0])


def _is_padded(chunk: Term) -> bool:
    """Whether the rows are padded to a multiple of the number of chunks."""
    rows, count = plain(chunk.args[0]), chunk.args[1]
    return rows.op == "pad" and any(term.op == "Mod" and term.args[1] is count for term in rows.args[1].walk())


def _is_entry(term: Term) -> bool:
    return bool(term.op == "item" and isinstance(term.args[1].value, str))


def _batch(chunk: Term) -> Term:
    """The batch that cut rows are an entry of."""
    rows = plain(chunk.args[0])
    while not _is_entry(rows) and rows.op in {"pad", "item"}:
        rows = plain(rows.args[0])
    return sample_of(rows)
