"""Tags: one value for each row, such as a modality or a segment number; and position ids."""

from dataclasses import dataclass

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import length_of, lens_of, plain
from shapecheck.codemods.engine.describe.rows import Change, Part, rows_of
from shapecheck.codemods.engine.terms import Term


@dataclass(frozen=True)
class PerRow:
    """A value for each row, built piece by piece.

    Attributes:
        term: the value.
        kind: `tags`, `positions` (restarting in each part), or `contiguous` (one count over all rows).
        parts: the rows that each piece counts.
        pieces: the terms of the pieces, in order, where they are the items of a display.
    """

    term: Term
    kind: str
    parts: tuple[Part, ...]
    pieces: tuple[Term, ...] = ()

    @property
    def from_zero(self) -> bool:
        """For `contiguous`: whether the count starts at 0."""
        return self.term.op == "arange" and bool(self.term.args[0].is_const(0))


def per_row_of(term: Term) -> PerRow | None:
    """The tags or positions that a value is; None where it is something else or a piece is not understood."""
    term = _stripped(term)
    match term.op:
        case "cat":
            return _pieces(term, term.args[1])
        case "Add" | "append" | "extend":
            return _pieces(term, term)
        case "list" if term.args and all(part.op == "star" for part in term.children()):
            return _pieces(term, term)
        case "flattened":
            return _pieces(term, term.args[0])
        case "each" if term.args[0].op == "star":
            return _pieces(term, term)
        case "repeat_interleave":
            lens = lens_of(term.args[1])
            if lens is not None and lens.kind == "parts":
                return PerRow(term, "tags", lens.parts)
        case "positions_of" | "tags_of":
            return None
    piece = _piece(term)
    return None if piece is None else PerRow(term, piece[0], piece[1])


def _stripped(term: Term) -> Term:
    while True:
        if term.op in {"view", "elementwise"}:
            term = term.args[1]
        elif term.op == "each" and len(term.args) == 2 and term.args[0] is term.pool.make("elem", term.args[1]):
            term = term.args[1]  # [i for i in range(n)]
        elif plain(term) is not term:
            term = plain(term)
        elif term.op == "item" and term.args[1].op == "const" and term.args[1].args[0] == "NoneType":
            term = term.args[0]
        else:
            return term


def _pieces(whole: Term, term: Term) -> PerRow | None:
    found = _collected(term)
    if not found:
        return None
    kinds = {kind for kind, _, _ in found}
    kind = "positions" if kinds & {"contiguous", "positions"} and "tags" not in kinds else "tags"
    return PerRow(
        whole, kind, tuple(part for _, parts, _ in found for part in parts), tuple(piece for _, _, piece in found)
    )


_Piece = tuple[str, tuple[Part, ...], Term]


def _collected(term: Term) -> list[_Piece] | None:
    """The pieces of a list of tensors or of a sum of lists; None if one is not understood."""
    term = _stripped(term)
    match term.op:
        case "list" | "tuple":
            result: list[_Piece] = []
            for item in term.children():
                inner = _collected(item.args[0]) if item.op == "star" else _single(item)
                if inner is None:
                    return None
                result += inner
            return result
        case "Add" | "extend" | "append":
            first, second = (
                _collected(term.args[0]),
                (_single(term.args[1]) if term.op == "append" else _collected(term.args[1])),
            )
            return None if first is None or second is None else first + second
        case "each":
            element, _, *tests = term.args
            inner = _collected(element.args[0]) if element.op == "star" else _single(element)
            if inner is None:
                return None
            filters = tuple(Change("filter", term, (test,)) for test in tests)
            return [
                (kind, tuple(Part(p.root, (*p.changes, *filters), each=True) for p in parts), piece)
                for kind, parts, piece in inner
            ]
    return _single(term)


def _single(term: Term) -> list[_Piece] | None:
    term = _stripped(term)
    if term.op in {"cat", "Add"}:
        return _collected(term.args[1] if term.op == "cat" else term)
    piece = _piece(term)
    return None if piece is None else [(*piece, term)]


def _piece(term: Term) -> tuple[str, tuple[Part, ...]] | None:
    match term.op:
        case "full":
            sizes = [size.args[0] if size.op == "star" else size for size in term.args[1:] if not size.is_const(1)]
            for size in sizes:
                whole = _leading_shape(size)
                if whole is not None:
                    return "tags", rows_of(whole).flat
                parts = _counted(size)
                if parts is not None:
                    return "tags", parts
        case "full_like":
            return "tags", rows_of(term.args[0]).flat
        case "arange" if term.args[2].is_const(1):
            parts = _counted(_span(term))
            return None if parts is None else ("contiguous", parts)
        case "Mult":
            left, right = term.args
            for value, size in ((left, right), (right, left)):
                if value.op == "list" and len(value.args) == 1:
                    parts = _counted(size)
                    return None if parts is None else ("tags", parts)
    return None


def _span(count: Term) -> Term:
    """How many numbers `arange(start, end)` gives: n for `arange(start, start + n)`, else `end`."""
    start, end = plain(count.args[0]), plain(count.args[1])
    if end.op == "Add" and not start.is_const(0):
        for one, other in (end.args, reversed(end.args)):
            if plain(one) is start:
                rest: Term = other
                return rest
    return end


def _leading_shape(size: Term) -> Term | None:
    """`x` if the term is `x.shape`, or its first axes."""
    if size.op == "item" and size.args[1].op == "slice" and size.args[1].args[0].is_const(None):
        size = size.args[0]
    return size.args[0] if size.op == "attr" and size.args[1] == "shape" else None


def _summed(size: Term) -> Term | None:
    """The lengths that a total is the sum of: `sum(lens)`, `cu_seqlens[-1]`."""
    if size.op == "sum" and len(size.args) == 1:
        lens: Term = size.args[0]
        return lens
    if size.op == "item" and size.args[1].is_const(-1):
        bounds = bounds_of(size.args[0])
        return bounds.source if bounds is not None and bounds.kind == "lens" and not bounds.appended else None
    return None


def _counted(size: Term) -> tuple[Part, ...] | None:
    size = plain(size)
    if size.op == "Add":
        left, right = _counted(size.args[0]), _counted(size.args[1])
        return None if left is None or right is None else left + right
    lens = _summed(size)
    if lens is not None:
        found = lens_of(lens)
        return found.parts if found is not None and found.kind == "parts" else None
    length = length_of(size)
    return None if length is None or not length.rows.known else length.rows.flat
