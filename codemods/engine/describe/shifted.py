"""Rows that were moved by one place: `roll`, or all but the first plus filler."""

from dataclasses import dataclass

from shapecheck.codemods.engine.terms import Term

_SAME = {"cast", "host", "moved", "copy", "typed_like", "tensor"}


@dataclass(frozen=True)
class Shifted:
    """`whole` is `source`, moved."""

    whole: Term
    source: Term


def shifted(term: Term) -> Shifted | None:
    """How a value was moved; padding behind it and views of it do not matter. None where it was not."""
    while True:
        if term.op in _SAME or (term.op == "pad" and source_of_shift(term) is None):
            term = term.args[0]
        elif term.op == "view":
            term = term.args[1]
        elif term.op == "store" and term.args[1].is_const(-1):
            term = term.args[0]  # the last label gets its filler
        elif term.op == "item" and term.args[1].is_const(None):
            term = term.args[0]
        else:
            break
    source = source_of_shift(term)
    return None if source is None else Shifted(term, source)


def source_of_shift(term: Term) -> Term | None:
    """`x` if the term is x moved by one place, with as many rows."""
    match term.op:
        case "roll":
            moved = term.args[1]
            if moved.op in {"tuple", "list"} and len(moved.args) == 1:
                moved = moved.args[0]
            return term.args[0] if type(moved.value) is int and abs(moved.value) == 1 else None
        case "cat" if term.args[1].op in {"list", "tuple"}:
            parts = term.args[1].args
            return behind_first(parts[0]) if len(parts) == 2 and _is_one(parts[1]) else None
        case "Add" if term.args[1].op == "list" and len(term.args[1].args) == 1:
            return behind_first(term.args[0])
        case "store" if _is_all_but_last(term.args[1]):
            return behind_first(term.args[2])
        case "pad":
            amounts = term.args[1]
            if (
                amounts.op in {"tuple", "list"}
                and len(amounts.args) >= 2
                and amounts.args[0].is_const(0)
                and amounts.args[1].is_const(1)
            ):
                return behind_first(term.args[0])
    return None


def balanced(term: Term) -> Term | None:
    """`x` if the term is x without a constant number of rows at one end, and with as many further ones."""
    match term.op:
        case "cat" if term.args[1].op in {"list", "tuple"} and len(term.args[1].args) == 2:
            sides = [(part, _count(part)) for part in term.args[1].args]
        case "Add":
            sides = [(part, _count(part)) for part in term.args]
        case "list" | "tuple":
            spread = [part for part in term.args if part.op == "star"]
            if len(spread) != 1 or spread[0] not in {term.args[0], term.args[-1]}:
                return None
            sides = [(spread[0].args[0], None), (term, len(term.args) - 1)]
        case _:
            return None
    for (rows, _), (_, added) in (sides, reversed(sides)):
        cut = _cut(rows)
        if cut is not None and cut[1] == added:
            return cut[0]
    return None


def _cut(term: Term) -> tuple[Term, int] | None:
    """`x` and how many rows were cut off, for `x[k:]` and `x[:-k]`."""
    if term.op != "item" or term.args[1].op != "slice" or not term.args[1].args[2].is_const(None):
        return None
    low, high, _ = term.args[1].args
    if high.is_const(None) and type(low.value) is int and low.value > 0:
        return term.args[0], low.value
    if low.is_const(None) and type(high.value) is int and high.value < 0:
        return term.args[0], -high.value
    return None


def _count(filler: Term) -> int | None:
    """How many rows a filler has; None if that is no constant."""
    while filler.op in _SAME:
        filler = filler.args[0]
    if filler.op == "list" and not any(part.op == "star" for part in filler.args):
        return len(filler.args)
    if filler.op == "Mult" and filler.args[0].op == "list" and type(filler.args[1].value) is int:
        count: int = len(filler.args[0].args) * filler.args[1].value
        return count
    if filler.op == "full" and len(filler.args) == 2 and type(filler.args[1].value) is int:
        rows: int = filler.args[1].value
        return rows
    return None


def _is_all_but_last(index: Term) -> bool:
    """`[:-1]`, `[:, :-1]` or `[..., :-1]`."""
    if index.op == "tuple" and index.args:
        index = index.args[-1]
    return bool(index.op == "slice" and index.args[0].is_const(None) and index.args[1].is_const(-1))


def _is_one(filler: Term) -> bool:
    """Whether the filler is one row: `x.new_full((1,), -100)`, `torch.tensor([-100])`, `x[:1]`."""
    while filler.op in _SAME or filler.op == "view":
        filler = filler.args[1 if filler.op == "view" else 0]
    if filler.op == "full":
        return bool(filler.args[-1].is_const(1))
    if filler.op == "full_like":
        return _is_one(filler.args[1])
    if filler.op == "const":
        return True  # np.append(x[1:], -100)
    if filler.op == "list":
        return len(filler.args) == 1
    if filler.op == "item":
        index = filler.args[1].args[-1] if filler.args[1].op == "tuple" else filler.args[1]
        return bool(index.op == "slice" and (index.args[1].is_const(1) or index.args[0].is_const(-1)))
    return False


def behind_first(term: Term) -> Term | None:
    """`x` if the term is `x[1:]`, `x[:, 1:]` or `x[..., 1:]`."""
    if term.op != "item":
        return None
    index = term.args[1]
    if index.op == "tuple":
        slices = [part for part in index.children() if part.op != "slice" or not _is_full(part)]
        slices = [part for part in slices if not part.is_const(...)]
        if len(slices) != 1:
            return None
        index = slices[0]
    if (
        index.op == "slice"
        and index.args[0].is_const(1)
        and index.args[1].is_const(None)
        and index.args[2].is_const(None)
    ):
        source: Term = term.args[0]
        return source
    return None


def _is_full(part: Term) -> bool:
    return all(end.is_const(None) for end in part.args)
