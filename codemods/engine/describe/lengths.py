"""Numbers of rows: the length of one value, and lists of lengths."""

from dataclasses import dataclass

from shapecheck.codemods.engine.describe.rows import Part, Rows, rows_of
from shapecheck.codemods.engine.terms import Term

# A copy of the same numbers: on another device, of another integer type, or as a Python object.
_COPIES = {"host", "moved", "copy", "cast", "typed_like", "tensor"}


# Results of numpy or torch; `size` of other objects may be anything.
_ARRAYS = {"cat", "tensor", "pad", "view", "cast", "picked"}


def plain(term: Term) -> Term:
    """`term` without casts, copies and moves: the same numbers."""
    while True:
        if term.op in _COPIES or (
            term.op == "view" and term.args[0] in {"view", "reshape", "flatten", "squeeze", "unsqueeze", "ravel"}
        ):
            term = term.args[1] if term.op == "view" else term.args[0]
        elif term.op == "stack":
            term = term.args[1]
        else:
            return term


@dataclass(frozen=True)
class Length:
    """The number of rows of a value along an axis (None: of its only axis)."""

    rows: Rows
    axis: int | None
    of: Term


def length_of(term: Term) -> Length | None:
    """`x.shape[0]`, `x.size(1)`, `len(x)`, `x.numel()`, also as int or tensor."""
    term = plain(term)
    match term.op:
        case "elem" if (made := _made_for_each(term)) is not None:
            return length_of(made)
        case "shape":
            axis = term.args[1].value
            return Length(rows_of(term.args[0]), axis, term.args[0]) if isinstance(axis, int) else None
        case "len":
            return Length(rows_of(term.args[0]), 0, term.args[0])
        case "attr" if term.args[1] == "size" and term.args[0].op in _ARRAYS:
            return Length(rows_of(term.args[0]), None, term.args[0])
        case "numel":
            return Length(rows_of(term.args[0]), None, term.args[0])
    return None


def _made_for_each(term: Term) -> Term | None:
    """What an item of a comprehension without tests is, in terms of the items that it was made from."""
    source = term.args[0]
    while source.op == "copy":
        source = source.args[0]
    if source.op != "each" or len(source.args) != 2 or source.args[0].op in {"star", "several"}:
        return None
    made: Term = source.args[0]
    return made


@dataclass(frozen=True)
class Lens:
    """A list of segment lengths.

    Attributes:
        term: the list itself, without casts.
        kind: `parts` (lengths of known values), `mask` (rows that a mask keeps), `bounds` (differences of boundaries),
            `dense` (the same length for each sample), `opaque`.
        parts: for `parts`, one part for each segment; its rows are what was measured.
        source: the mask, the boundaries, the common length or the opaque value.
    """

    term: Term
    kind: str
    parts: tuple[Part, ...] = ()
    source: Term | None = None


def lens_of(term: Term) -> Lens | None:
    """The list of lengths that a value is; None where it is no such list for sure."""
    term = plain(term)
    match term.op:
        case "list" | "tuple" if term.args:
            return _listed(term)
        case "Add":
            return _joined(term)
        case "append":
            return _joined(term)
        case "each":
            return _each(term)
        case "diff":
            return Lens(term, "bounds", (), term.args[0])
        case "Sub":
            whole = differences(term)
            return None if whole is None else Lens(term, "bounds", (), whole)
        case "sum" if len(term.args) == 2 and term.args[1].op == "const" and term.args[1].value in {1, -1}:
            return Lens(term, "mask", (), term.args[0])
        case "full" if len(term.args) == 2 and term.args[0].op != "anything":
            return Lens(term, "dense", (), term.args[0])
        case "Mult" if (
            term.args[0].op == "list" and len(term.args[0].args) == 1 and length_of(term.args[0].args[0]) is not None
        ):
            return Lens(term, "dense", (), term.args[0].args[0])
        case "sorted" | "flip":
            inner = lens_of(term.args[0])
            return None if inner is None else Lens(term, "opaque", (), term)
    return None


def differences(term: Term) -> Term | None:
    """`b` if the term is `b[1:] - b[:-1]`."""
    if term.op != "Sub":
        return None
    left, right = plain(term.args[0]), plain(term.args[1])
    if left.op != "item" or right.op != "item" or left.args[0] is not right.args[0]:
        return None
    if _ends(left.args[1]) == (1, None) and _ends(right.args[1]) in {(None, -1), (0, -1)}:
        base: Term = left.args[0]
        return base
    return None


def _ends(index: Term) -> tuple[object, object]:
    if index.op != "slice":
        return ("?", "?")
    return (index.args[0].value, index.args[1].value) if all(part.op == "const" for part in index.args) else ("?", "?")


def _segment(term: Term) -> Part | None:
    """The part that one length measures; a length of several parts is a part of its own."""
    length = length_of(term)
    if length is None:
        return None
    flat = length.rows.flat
    if len(flat) == 1 and length.rows.known:
        return flat[0]
    return Part(length.of)


def _listed(term: Term) -> Lens | None:
    parts: list[Part] = []
    for item in term.children():
        if item.op == "star":
            inner = lens_of(item.args[0])
            if inner is None or inner.kind != "parts":
                return None
            parts.extend(inner.parts)
            continue
        part = _segment(item)
        if part is None:
            return None
        parts.append(part)
    return Lens(term, "parts", tuple(parts))


def _joined(term: Term) -> Lens | None:
    first = lens_of(term.args[0])
    if first is None or first.kind != "parts":
        return None
    if term.op == "append":
        part = _segment(term.args[1])
        return None if part is None else Lens(term, "parts", (*first.parts, part))
    second = lens_of(term.args[1])
    return Lens(term, "parts", (*first.parts, *second.parts)) if second is not None and second.kind == "parts" else None


def _each(term: Term) -> Lens | None:
    from shapecheck.codemods.engine.describe.rows import Change

    element, _, *tests = term.args
    elements = element.args if element.op == "several" else (element,)
    parts = []
    for item in elements:
        part = _segment(item)
        if part is None:
            return None
        for test in tests:
            part = part.then(Change("filter", term, (test,)))
        parts.append(Part(part.root, part.changes, each=True))
    return Lens(term, "parts", tuple(parts))
