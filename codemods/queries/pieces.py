"""Rows that were cut into segments by the very lengths or boundaries that go with them, changed, and joined again."""

from dataclasses import dataclass, replace

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import differences, plain
from shapecheck.codemods.engine.describe.rows import Change, Part, Rows
from shapecheck.codemods.engine.terms import Term

_COMPUTED = {"max", "min", "Sub", "Add"}


@dataclass(frozen=True)
class Piece:
    """A segment of rows.

    Attributes:
        part: the rows of one segment, before later changes.
        cut_by: the lengths or boundaries that cut it.
        cumulative: whether these are boundaries.
    """

    part: Part
    cut_by: Term
    cumulative: bool


def counted_piece(meta: Term, held: Rows) -> Piece | None:
    """The segment of the rows that lengths or boundaries count because they cut it; None if they cut none."""
    bounds = bounds_of(meta)
    if bounds is not None and (bounds.divisor is not None or bounds.appended):
        return None
    sizes = {plain(meta)} | (set() if bounds is None else {plain(bounds.source)})
    for part in held.flat:
        for at, change in enumerate(part.changes if part.each else ()):
            edges = _edges(change)
            cut_by = _lengths(change) if edges is None else edges
            if cut_by is not None and cut_by in sizes:
                cumulative = edges is not None or bounds is not None
                return Piece(Part(part.root, part.changes[: at + 1], each=True), cut_by, cumulative)
    return None


def split_cuts(rows: Rows) -> Rows:
    """The rows, with a cut of each segment's window (`x[max(a, b - n) : b]`) as two: of the segment, and within it."""
    return replace(rows, parts=tuple(_split(part) if part.each else part for part in rows.parts))


def _split(part: Part) -> Part:
    changes: list[Change] = []
    for change in part.changes:
        whole = None if change.kind != "slice" or change.detail[0].op != "slice" else _segment(change.detail[0])
        if whole is not None:
            changes.append(Change("slice", change.term, (whole,)))
        changes.append(change)
    return part if len(changes) == len(part.changes) else replace(part, changes=tuple(changes))


def _segment(index: Term) -> Term | None:
    """The slice of the whole segment, for one that takes a window of it by a computed end."""
    low, high, step = index.args
    starts, ends = plain(low), plain(high)
    pool = index.pool
    if starts.op in _COMPUTED and (start := _start_for(ends)) is not None:
        return pool.make("slice", start, high, step, node=index.node) if _uses(starts, start, high) else None
    if ends.op in _COMPUTED and (end := _end_for(starts)) is not None:
        return pool.make("slice", low, end, step, node=index.node) if _uses(ends, low, end) else None
    return None


def _uses(computed: Term, *edges: Term) -> bool:
    """Whether an end is computed from the boundaries and something that is no constant."""
    inside = set(computed.walk())
    others = [inner for inner in inside if inner.op in {"parameter", "attr", "global", "sym"}]
    of_edges = {below for edge in edges for below in edge.walk()}
    return any(edge in inside for edge in edges) and any(other not in of_edges for other in others)


def _start_for(end: Term) -> Term | None:
    """The start of the segment that ends at an item of `b[1:]`."""
    source = plain(end.args[0]) if end.op == "elem" else end
    if source.op != "item" or source.args[1].op != "slice" or not source.args[1].args[0].is_const(1):
        return None
    pool, none = end.pool, end.pool.const(None)
    starts = pool.make("slice", none, pool.const(-1), none)
    return pool.make("elem", pool.make("item", source.args[0], starts), node=end.node)


def _end_for(start: Term) -> Term | None:
    """The end of the segment that starts at an item of `b[:-1]`."""
    source = plain(start.args[0]) if start.op == "elem" else start
    if source.op != "item" or source.args[1].op != "slice" or not source.args[1].args[1].is_const(-1):
        return None
    pool, none = start.pool, start.pool.const(None)
    ends = pool.make("slice", pool.const(1), none, none)
    return pool.make("elem", pool.make("item", source.args[0], ends), node=start.node)


def _lengths(change: Change) -> Term | None:
    """The lengths by which a change takes segment after segment."""
    if change.kind != "piece" or change.term.op != "split":
        return None
    sizes = plain(change.detail[0])
    return None if sizes.op == "const" else sizes


def _edges(change: Change) -> Term | None:
    """The boundaries by which a change takes segment after segment."""
    sizes = _lengths(change)
    if sizes is not None:
        of = sizes.args[0] if sizes.op == "diff" else differences(sizes)
        return None if of is None else plain(of)
    if change.kind != "slice" or change.detail[0].op != "slice":
        return None
    low, high = (plain(end) for end in change.detail[0].args[:2])
    if low.op == high.op == "elem":
        return _zipped(plain(low.args[0]), plain(high.args[0]))
    if low.op == high.op == "item" and low.args[0] is high.args[0]:
        (base, at), (_, end) = low.args, high.args
        if base.op == "elem":  # for start, end in pairwise(cu_seqlens)
            pairs = base.args[0]
            is_pair = (
                pairs.op == "call" and str(pairs.args[0]).endswith("pairwise") and at.is_const(0) and end.is_const(1)
            )
            return plain(pairs.args[1]) if is_pair else None
        if end.op == "Add" and end.args[0] is at and end.args[1].is_const(1) and at.op == "elem":
            return plain(base)  # x[cu[i] : cu[i + 1]]
    return None


def _zipped(starts: Term, ends: Term) -> Term | None:
    """`b` if starts and ends are `b[:-1]` and `b[1:]`."""
    if starts.op != "item" or ends.op != "item" or starts.args[1].op != "slice" or ends.args[1].op != "slice":
        return None
    low, high = starts.args[1].args[:2], ends.args[1].args[:2]
    is_first = (low[0].is_const(None) or low[0].is_const(0)) and low[1].is_const(-1)
    is_last = high[0].is_const(1) and high[1].is_const(None)
    base = plain(starts.args[0])
    return base if is_first and is_last and base is plain(ends.args[0]) else None
