"""On which axis a tensor was changed."""

from shapecheck.codemods.engine.describe.rows import Change
from shapecheck.codemods.engine.terms import Term


def axis_of(change: Change, rank: int) -> int | None:
    """The axis of a change to a tensor of `rank` axes; None if unknown. Changes to a list of samples have axis 0."""
    term = change.term
    match term.op:
        case "item":
            return _indexed(term.args[1])
        case "picked" | "narrow":
            axis = term.args[1].value
            return _counted(axis, rank)
        case "pad":
            return _padded(term.args[1], rank)
        case "each" | "sorted" | "unpadded":
            return 0
    return None


def _counted(axis: object, rank: int) -> int | None:
    if not isinstance(axis, int):
        return None
    return axis if axis >= 0 else rank + axis


def _indexed(index: Term) -> int | None:
    if index.op != "tuple":
        return 0
    changed = [at for at, part in enumerate(index.args) if not _is_full(part)]
    if len(changed) != 1 or any(part.is_const(...) or part.is_const(None) for part in index.args[: changed[0] + 1]):
        return None
    return changed[0]


def _is_full(part: Term) -> bool:
    return part.op == "slice" and all(end.is_const(None) for end in part.args)


def _padded(amounts: Term, rank: int) -> int | None:
    """`F.pad` counts axes from the last."""
    if amounts.op not in {"tuple", "list"} or len(amounts.args) % 2:
        return None
    pairs = [amounts.args[at : at + 2] for at in range(0, len(amounts.args), 2)]
    changed = [at for at, pair in enumerate(pairs) if not all(side.is_const(0) for side in pair)]
    return rank - 1 - changed[0] if len(changed) == 1 else None


def cat_axis(term: Term, rank: int) -> int | None:
    """The axis along which a tensor was concatenated; None if it was not, or unknown."""
    while term.op in {"cast", "host", "moved", "copy", "typed_like"}:
        term = term.args[0]
    return _counted(term.args[0].value, rank) if term.op == "cat" else None
