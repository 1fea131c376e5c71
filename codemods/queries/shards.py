"""Rows that were cut into one piece for each rank."""

from shapecheck.codemods.engine.describe.rows import Change
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.words import words


def is_shard(change: Change) -> bool:
    """`x.chunk(world)[rank]`, and slices and picks whose place depends on the rank."""
    if change.kind == "shard":
        return True
    return change.kind in {"slice", "pick"} and any(_is_rank(inner) for part in change.detail for inner in part.walk())


def is_rank_of(change: Change) -> bool:
    """The same, with a rank in any case: `x.chunk(parts)[i]` may be a loop over micro-batches."""
    if change.kind == "shard":
        return any(_is_rank(inner) for inner in change.detail[1].walk())
    return is_shard(change)


def is_trim(change: Change) -> bool:
    """`x[:total]`: drops rows behind the last segment."""
    if change.kind != "slice":
        return False
    start = change.detail[0].args[0] if change.detail[0].op == "slice" else change.detail[0]
    return start.is_const(None) or start.is_const(0)


def _is_rank(term: Term) -> bool:
    match term.op:
        case "parameter" | "global":
            return "rank" in words(term.args[0])
        case "attr":
            return "rank" in words(term.args[1])
        case "call":
            return "rank" in words(term.args[0].rpartition(".")[2])
    return False


def is_of_rank(change: Change) -> bool:
    """Whether a cut certainly depends on the rank: its number is called so."""
    detail = change.detail[1:] if change.kind == "shard" else change.detail
    return is_shard(change) and any(_is_rank(inner) for part in detail for inner in part.walk())


def cut_axis(change: Change) -> int | None:
    """The axis along which a cut goes; None if unknown."""
    term = change.term
    match term.op:
        case "narrow" | "picked":
            axis: object = term.args[1].value
        case "item" if term.args[0].op == "chunk":
            axis = term.args[0].args[2].value
        case "item" if term.args[1].op == "slice":
            axis = 0
        case "item" if term.args[1].op == "tuple":
            places = [at for at, part in enumerate(term.args[1].args) if part in change.detail]
            first = term.args[1].args[0]
            axis = None if not places else places[0] - len(term.args[1].args) if first.is_const(...) else places[0]
        case _:
            return None
    return axis if isinstance(axis, int) else None
