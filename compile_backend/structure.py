"""The structure of a mask: which queries and keys belong together, read off its element."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from shapecheck.compile_backend import facts
from shapecheck.compile_backend.elements import Unknown, describe
from shapecheck.compile_backend.expressions import (
    Absolute,
    Affine,
    Atom,
    Compare,
    Formula,
    Read,
    Truth,
    Var,
    compare,
    conjunction,
    conjuncts,
    reads_of,
    variables_of,
)
from shapecheck.compile_backend.reading import Memory
from torch import fx

Axis = Literal["b", "row"] | None
"""What an axis of a tag counts: samples, rows, or nothing (it has size 1)."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A tensor with one value per row."""

    node: fx.Node
    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """Query i sees key j of its sample if every statement here holds.

    Attributes:
        tags: pairs of tags that must be equal: of the query's row and of the key's.
        left: `i - j <= left`; -1 without bound.
        right: `j - i <= right`; -1 without bound. Causal is 0.
        valid_q: statements on the query alone, in `b` and `i`.
        valid_k: statements on the key alone, in `b` and `j`.
        positions: the positions by which rows are compared instead of their numbers; None if by numbers.
    """

    tags: tuple[tuple[Tag, Tag], ...]
    left: int
    right: int
    valid_q: frozenset[Formula]
    valid_k: frozenset[Formula]
    positions: fx.Node | None

    @property
    def causal(self) -> bool:
        """Whether no query sees a later key."""
        return self.right == 0

    @property
    def one_stream(self) -> bool:
        """Whether queries and keys get their tags from the same tensors."""
        return all(q == k for q, k in self.tags)


def structure(formula: Formula, memory: Memory, square: bool) -> Structure:
    """The structure that `formula` describes.

    Args:
        formula: the mask's element, in `b`, `h`, `i`, `j`; true where the query sees the key.
        memory: of the graph.
        square: whether there are as many queries as keys.

    Raises:
        Unknown: if some part of it is none of the above.
    """
    if formula is False:
        raise Unknown("the mask hides every key")
    if "h" in variables_of(formula):
        raise Unknown("the mask differs between heads")
    tags: list[tuple[Tag, Tag]] = []
    spans: list[tuple[Affine, fx.Node | None]] = []
    valid_q: set[Formula] = set()
    valid_k: set[Formula] = set()
    for part in sorted(_identified(conjuncts(formula)), key=repr):
        if _always(part):
            continue
        indices = variables_of(part) & {"i", "j"}
        if indices == {"i"}:
            valid_q.add(_plain(part))
        elif indices != {"i", "j"}:
            valid_k.add(_plain(part))
        elif (pair := _same_tag(part)) is not None:
            tags.append(pair)
        elif (span := _span(part)) is not None:
            spans.append(span)
        else:
            raise Unknown(_opaque(part))
    left, right, positions = _window(spans, tags, memory, square)
    return Structure(tuple(tags), left, right, frozenset(valid_q), frozenset(valid_k), positions)


def _identified(parts: frozenset[Formula]) -> frozenset[Formula]:
    """`parts`, with what is looked up at a key's tag looked up at the query's: that the two are equal is a part too."""
    same: dict[Atom | None, Affine] = {}
    for part in parts:
        if isinstance(part, Compare) and _same_tag(part) is not None:
            q, k = sorted((atom for atom, _ in part.value.terms), key=lambda atom: _row(atom) != "i")
            same[k] = Affine.of(q)
    return conjuncts(conjunction(*(_looked_up(part, same) for part in parts)))


def _looked_up(part: Formula, same: Mapping[Atom | None, Affine]) -> Formula:
    if not isinstance(part, Compare) or not same:
        return part
    value = Affine.of(part.value.const)
    for atom, coefficient in part.value.terms:
        at_query = (
            Read(atom.node, tuple(same.get(one.atom, one) for one in atom.index)) if isinstance(atom, Read) else atom
        )
        value += Affine.of(at_query).times(coefficient)
    return compare(part.relation, value, Affine.of(0))


def _always(part: Formula) -> bool:
    """Whether `part` says no more than that row numbers are not negative."""
    if not isinstance(part, Compare) or part.relation != "le" or part.value.const.is_nonpositive is not True:
        return False
    return all(isinstance(atom, Var) and coefficient < 0 for atom, coefficient in part.value.terms)


def _same_tag(part: Formula) -> tuple[Tag, Tag] | None:
    """`tag_q[b, i] == tag_k[b, j]`."""
    if not isinstance(part, Compare) or part.relation != "eq" or part.value.const != 0 or len(part.value.terms) != 2:
        return None
    sides: dict[str, Tag] = {}
    for (atom, coefficient), sign in zip(sorted(part.value.terms, key=lambda term: term[1]), (-1, 1), strict=True):
        if not isinstance(atom, Read) or coefficient != sign:
            return None
        axes = [_axis(one) for one in atom.index]
        rows = [row for row, _ in axes if row in ("i", "j")]
        if len(rows) != 1 or not all(good for _, good in axes):
            return None
        names: tuple[Axis, ...] = tuple("row" if row in ("i", "j") else "b" if row == "b" else None for row, _ in axes)
        sides[rows[0]] = Tag(atom.node, names)
    return (sides["i"], sides["j"]) if sides.keys() == {"i", "j"} else None


def _axis(index: Affine) -> tuple[str | None, bool]:
    """The running index that stands here, and whether that or 0 is all that stands here."""
    if index.number == 0:
        return None, True
    atom = index.atom
    return (atom.name, True) if isinstance(atom, Var) and atom.name != "h" else (None, False)


def _span(part: Formula) -> tuple[Affine, fx.Node | None] | None:
    """`a - b + c <= 0` of the row numbers of query and key; with the positions instead of numbers, these."""
    if not isinstance(part, Compare) or part.relation != "le":
        return None
    terms = part.value.terms
    if len(terms) == 1:
        ((atom, coefficient),) = terms
        if not isinstance(atom, Absolute) or coefficient != 1:
            return None
        terms = atom.inner.terms
        if atom.inner.const != 0:
            return None
    if len(terms) != 2 or {coefficient for _, coefficient in terms} != {1, -1}:
        return None
    atoms = [atom for atom, _ in terms]
    if all(isinstance(atom, Var) for atom in atoms):
        return part.value, None
    reads = [atom for atom in atoms if isinstance(atom, Read)]
    if len(reads) == 2 and reads[0].node is reads[1].node and _alike(*reads):
        return part.value, reads[0].node
    return None


def _alike(one: Read, other: Read) -> bool:
    """Whether two reads differ in nothing but the row."""
    pairs = zip(one.index, other.index, strict=True)
    axes = [(_axis(a), _axis(b)) for a, b in pairs]
    return all(a[1] and b[1] and (a[0] == b[0] or {a[0], b[0]} == {"i", "j"}) for a, b in axes)


def _window(
    spans: list[tuple[Affine, fx.Node | None]], tags: list[tuple[Tag, Tag]], memory: Memory, square: bool
) -> tuple[int, int, fx.Node | None]:
    left = right = -1
    by: fx.Node | None = None
    for value, positions in spans:
        if not square:
            raise Unknown("rows are compared by number, and there are more keys than queries or fewer")
        if positions is not None:
            if not any(q == k and _along(q, positions, memory) for q, k in tags):
                raise Unknown(
                    f"rows are compared by {describe(positions)}, which need not count up by one inside the segments"
                )
            by = positions
        if not value.const.is_Integer:
            raise Unknown("the width of the window varies from call to call")
        reach = -int(value.const)
        if reach < 0:
            raise Unknown("the window leaves out the row itself")
        for to_left in _directions(value):
            if to_left:
                left = reach if left < 0 else min(left, reach)
            else:
                right = reach if right < 0 else min(right, reach)
    return left, right, by


def _along(tag: Tag, positions: fx.Node, memory: Memory) -> bool:
    return facts.steps_by_one(tag.node, positions, memory)


def _directions(value: Affine) -> tuple[bool, ...]:
    """Whether the span bounds what the query sees to its left (`i - j`), to its right (`j - i`), or both."""
    for atom, coefficient in value.terms:
        if isinstance(atom, Absolute):
            return True, False
        if _row(atom) == "i":
            return (coefficient == 1,)
    raise AssertionError(value)


def _row(atom: object) -> str | None:
    if isinstance(atom, Var):
        return atom.name
    if isinstance(atom, Read):
        return next((name for one in atom.index for name in ("i", "j") if name in one.variables()), None)
    return None


def _plain(part: Formula) -> Formula:
    """`part`, if it can be computed again from the tensors that it reads."""
    for read in reads_of(part):
        for one in read.index:
            if not _axis(one)[1]:
                raise Unknown(f"{describe(read.node)} is read at rows that are not understood")
    return part


def _opaque(part: Formula) -> str:
    if isinstance(part, Truth):
        what = describe(part.read.node)
        if part.read.node.op == "placeholder":
            return f"the mask is {what}: nothing here shows its structure"
        return f"{what} decides for each query and key on its own"
    read = sorted({describe(read.node) for read in reads_of(part)})
    about = f" of {', '.join(read)}" if read else ""
    return f"part of the mask is no comparison of tags and no window: {_words(part)}{about}"


def _words(part: Formula) -> str:
    if isinstance(part, Compare):
        return {"eq": "an equality", "ne": "an inequality", "le": "a comparison"}[part.relation]
    return {"Some": "an alternative", "Not": "a negation"}.get(type(part).__name__, "a condition")


def may_be_empty(found: Structure) -> bool:
    """Whether some query may see no key at all. Without conditions on rows, each sees at least itself."""
    return bool(found.valid_q or found.valid_k) or not found.one_stream
