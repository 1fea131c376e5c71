"""Boundaries and lengths that were measured on other rows than those that they travel with."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from shapecheck.codemods.compare import Difference, difference, worlds
from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import length_of, lens_of, plain
from shapecheck.codemods.engine.describe.rows import Change, Part, Rows, rows_of
from shapecheck.codemods.engine.events import Context
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.queries.pieces import counted_piece, split_cuts
from shapecheck.codemods.queries.qualified import is_for_its_parts, is_for_other_member
from shapecheck.codemods.queries.rounding import rounded
from shapecheck.codemods.view import Argument, View

_BOUNDS = frozenset({"bounds", "bounds_q", "bounds_k", "padded", "padded_q", "padded_k", "ends_q", "ends_k"})
_LENS = frozenset({"lens", "lens_q", "lens_k"})
_ROWS = frozenset({"rows", "x", "q", "k", "v", "kv", "qkv"})


@dataclass(frozen=True)
class Measured:
    """What boundaries or lengths count.

    Attributes:
        parts: the rows of each segment.
        axis: the axis along which they were counted; None for the only axis; `?` where it is not the same for all.
        cumulative: whether they are boundaries (else lengths).
        source: the lengths.
        cut_by: whether the rows were cut into segments by them.
    """

    parts: tuple[Part, ...]
    axis: int | str | None
    cumulative: bool
    source: Term
    cut_by: bool = False


@dataclass(frozen=True, eq=False)
class Parting:
    """Metadata that describes other rows than the tensor beside it.

    Attributes:
        meta: the metadata.
        rows: the tensor.
        measured: what the metadata counts.
        difference: how the two part ways.
        whole: for a change of the rows, whether it hit all of them together (else each segment).
        exact: whether the consumer demands that the last boundary is the number of rows.
        leaves: whether both leave the function (else a call takes them).
        members: everything that travels with them.
    """

    meta: Argument
    rows: Argument
    measured: Measured
    difference: Difference
    whole: bool
    exact: bool
    leaves: bool
    members: tuple[Argument, ...]

    @property
    def change(self) -> Change | None:
        """The operation that only one side has."""
        return self.difference.change


@lru_cache(maxsize=1)
def partings(view: View) -> tuple[Parting, ...]:
    """The places of a function where boundaries or lengths and rows part ways, one for each measurement."""
    found: dict[Term, Parting] = {}
    # Of lengths and the boundaries made of them, the boundaries are what a reader follows.
    for parting in sorted(_all(view), key=lambda parting: not parting.measured.cumulative):
        found.setdefault(parting.measured.source, parting)
    return tuple(found.values())


def _all(view: View) -> Iterator[Parting]:
    for consumer in view.consumers:
        get = consumer.roles.get
        exact = consumer.sink is not None and consumer.sink.exact
        members = tuple(consumer.roles.values())
        paired: list[tuple[Argument | None, tuple[str, ...]]] = [
            (get("q") or get("qkv") or get("x"), ("bounds_q", "bounds", "ends_q", "padded_q")),
            (get("k") or get("kv") or get("qkv"), ("bounds_k", "bounds", "ends_k", "padded_k")),
        ]
        if paired[0][0] is not None and paired[1][0] is not None and paired[0][0] is not paired[1][0]:
            q, k = _same_call(paired[0][0], paired[1][0])
            if q is not paired[0][0]:
                paired += [(q, paired[0][1]), (k, paired[1][1])]
        if not any(rows for rows, _ in paired):
            first = _first_positional(view, consumer.call.node, consumer.call.args)
            rows = [*first, *(arg for arg in members if arg.role in _ROWS)]
            paired = [(arg, ("bounds", "bounds_q", "bounds_k", "lens", "padded", "padded_q")) for arg in rows]
        for arg, roles in paired:
            for role in roles:
                meta = get(role)
                if arg is not None and meta is not None and not is_for_other_member(meta, arg, consumer.call.kwargs):
                    yield from _compare(view, meta, arg, members, exact=exact, leaves=False)
    yield from _masks(view)
    calls = {consumer.call.node for consumer in view.consumers}
    groups = [company.members for company in companies(view) if company.node not in calls]
    for members in (*groups, *_fields(view)):
        for meta in members:
            if meta.role in _BOUNDS or meta.role in _LENS or (not meta.role and bounds_of(meta.term) is not None):
                for arg in members:
                    if row_like(arg) and not is_for_other_member(meta, arg, (member.name for member in members)):
                        yield from _compare(view, meta, arg, members, exact=False, leaves=True)


def _fields(view: View) -> Iterator[tuple[Argument, ...]]:
    """The fields of one object that are set one after the other, under the same conditions."""
    fields: dict[tuple[str, Context], dict[str, Argument]] = {}
    for binding in view.bindings:
        base, _, name = binding.target.rpartition(".")
        role = view.catalogue.role_of(name) if base and name.isidentifier() else None
        if role is not None:
            argument = Argument(role, name, binding.value, binding.value_node or binding.node)
            fields.setdefault((base, binding.context), {})[name] = argument
    yield from (tuple(members.values()) for members in fields.values() if len(members) > 1)


def _masks(view: View) -> Iterator[Parting]:
    """Attention whose mask was built from lengths: xformers' block-diagonal masks, flex attention's block masks."""
    for call in view.calls:
        given = [
            *zip(call.args, call.node.args, strict=False),
            *((call.kwargs.get(word.arg or ""), word.value) for word in call.node.keywords),
        ]
        for term, node in given:
            if term is None or term.op != "call" or len(call.args) < 2 or not call.node.args:
                continue
            lens = mask_lengths(term)
            for at, measured_term in enumerate(lens):
                rows = call.args[at] if at < len(call.args) else None
                if rows is not None:
                    meta = Argument("lens_q" if at == 0 else "lens_k", ast.unparse(node), measured_term, node)
                    arg = Argument("q" if at == 0 else "k", ast.unparse(call.node.args[at]), rows, call.node.args[at])
                    yield from _compare(view, meta, arg, (meta, arg), exact=False, leaves=False)


def mask_lengths(term: Term) -> list[Term]:
    """The lengths of queries and keys for which a mask was built; empty for another call."""
    path, *args = term.args
    named = {arg.args[0]: arg.args[1] for arg in args if arg.op == "keyword"}
    plain_args = [arg for arg in args if arg.op != "keyword"]
    if path.endswith(".from_seqlens"):
        if path.startswith("."):
            plain_args = plain_args[1:]
        q = named.get("q_seqlen") or (plain_args[0] if plain_args else None)
        k = named.get("kv_seqlen") or (plain_args[1] if len(plain_args) > 1 else q)
    elif path.endswith("create_block_mask"):
        q = named.get("Q_LEN") or (plain_args[3] if len(plain_args) > 3 else None)
        k = named.get("KV_LEN") or (plain_args[4] if len(plain_args) > 4 else None)
        q, k = (_of_heads(length) for length in (q, k))
    else:
        return []
    return [q, k] if q is not None and k is not None else []


def _of_heads(length: Term | None) -> Term | None:
    """A length, counted from the front: flex attention takes (batch, heads, rows, features)."""
    if length is None or length.op != "shape" or not length.args[1].is_const(-2):
        return length
    return length.pool.make("shape", length.args[0], length.pool.const(2), node=length.node)


def row_like(argument: Argument) -> bool:
    """Whether a value may be rows, by the name it goes by."""
    return argument.role in _ROWS or (not argument.role and bounds_of(argument.term) is None)


def _first_positional(view: View, node: ast.Call, args: Sequence[Term | None]) -> list[Argument]:
    if node.args and args and args[0] is not None and not isinstance(node.args[0], ast.Starred):
        return [Argument("x", ast.unparse(node.args[0])[:40], args[0], node.args[0])]
    return []


def _compare(
    view: View, meta: Argument, rows: Argument, members: tuple[Argument, ...], *, exact: bool, leaves: bool
) -> Iterator[Parting]:
    if measured(meta.term) is None and not conditions(meta.term) and not rows.term.pool.by_op.get("each"):
        return
    meta_term, rows_term = first_round(meta.term), first_round(rows.term)
    meta_conditions, rows_conditions = conditions(meta_term), conditions(rows_term)
    if meta_conditions and meta_conditions != rows_conditions:
        return  # two conditions may be known to hold together, though not from here
    for one, other in worlds(meta_term, rows_term):
        held = split_cuts(rows_of(other))
        counted = measured(one) or _of_piece(one, held)
        if counted is None or not held.known:
            continue
        found = difference(held.flat, counted.parts)
        if found is None or (found.kind == "changed" and not _certain(found, counted, held, one)):
            continue
        if found.kind == "missing" and is_for_its_parts(meta, rows, counted.parts, found.part):
            continue
        whole = found.change is not None and found.change in held.changes
        if found.kind == "changed" and not found.rows_changed:
            whole = False
        elif found.change is not None and len(held.parts) == 1 and not held.parts[0].each:
            whole = True
        yield Parting(meta, rows, counted, found, whole, exact, leaves, members)
        return


def _of_piece(meta: Term, held: Rows) -> Measured | None:
    """What lengths or boundaries count that cut the rows into segments before."""
    found = counted_piece(meta, held)
    return None if found is None else Measured((found.part,), 0, found.cumulative, found.cut_by, cut_by=True)


def _same_call(one: Argument, other: Argument) -> tuple[Argument, Argument]:
    """What two values were made from by the same calls: `split_heads(q)` and `split_heads(k)` differ as q and k do."""
    while one.term.op == other.term.op == "call" and len(one.term.args) == len(other.term.args):
        apart = [pair for pair in zip(one.term.args, other.term.args, strict=True) if pair[0] != pair[1]]
        if len(apart) != 1 or not all(isinstance(side, Term) and side.op != "keyword" for side in apart[0]):
            break
        one, other = (replace(side, term=term) for side, term in zip((one, other), apart[0], strict=True))
    return one, other


def first_round(term: Term) -> Term:
    """`term` in the first round of the loops around it."""
    first = term.pool.first_round
    for _ in range(3):
        if not term.rounds:
            break
        rounds = {inner: first[inner] for inner in term.walk() if inner.op == "round" and inner in first}
        if not rounds:
            break
        term = term.pool.substitute(term, dict(rounds))
    return term


def conditions(term: Term) -> set[Term]:
    """The conditions of the branches in a value."""
    return set(term.conditions)


def measured(term: Term) -> Measured | None:
    """What boundaries, a list of lengths, or one length count; None where that is not known for sure."""
    bounds = bounds_of(term)
    if bounds is not None:
        if bounds.divisor is not None or bounds.appended:
            return None
        return _of_lengths(bounds.source, cumulative=True)
    inner = plain(term)
    if inner.op == "list" and len(inner.args) == 2 and inner.args[0].is_const(0):
        return _of_lengths(inner.args[1], cumulative=True)  # [0, n]: one segment
    return _of_lengths(inner, cumulative=False)


def _of_lengths(term: Term, *, cumulative: bool) -> Measured | None:
    lens = lens_of(term)
    if lens is not None and lens.kind == "bounds" and lens.source is not None:
        inner = measured(lens.source)
        return (
            None
            if inner is None or not inner.cumulative
            else Measured(inner.parts, inner.axis, cumulative, inner.source)
        )
    if lens is not None and lens.kind == "parts":
        axes = set(_axes(lens.term))
        return Measured(lens.parts, axes.pop() if len(axes) == 1 else "?", cumulative, lens.term)
    aligned = _aligned(plain(term), cumulative=cumulative)
    if aligned is not None:
        return aligned
    length = length_of(lens.source if lens is not None and lens.kind == "dense" and lens.source is not None else term)
    if length is None or not length.rows.known or len(length.rows.flat) != 1:
        return None
    return Measured(length.rows.flat, _axis(length.axis, length.of), cumulative, plain(term))


def _aligned(term: Term, *, cumulative: bool) -> Measured | None:
    """Lengths that were rounded up: what they count has padding."""
    each = term.op == "each" and len(term.args) == 2
    of = rounded(term.args[0] if each else term)
    length = None if of is None else length_of(of)
    if length is None or not length.rows.known or len(length.rows.flat) != 1:
        return None
    part = length.rows.flat[0].then(Change("align", term, (term,)))
    return Measured((replace(part, each=each),), _axis(length.axis, length.of), cumulative, term)


def _axes(lens: Term) -> Iterator[int | str | None]:
    match lens.op:
        case "list" | "tuple" | "Add" | "append" | "several":
            for item in lens.children():
                yield from _axes(plain(item.args[0] if item.op == "star" else item))
        case "each":
            yield from _axes(plain(lens.args[0]))
        case _:
            length = length_of(lens)
            yield "?" if length is None else _axis(length.axis, length.of)


def _axis(axis: int | None, of: Term) -> int | str | None:
    return "?" if axis is not None and _rearranged(of) else axis


def _rearranged(term: Term) -> bool:
    """Whether the axes of a value are others than those of the values that its rows come from."""
    while True:
        match term.op:
            case "view":
                if term.args[0] not in {"T", "t"} or len(term.args) > 2:
                    return True
                term = term.args[1]
            case "cast" | "host" | "moved" | "copy" | "typed_like" | "item" | "pad" | "picked" | "narrow":
                term = term.args[0]
            case "elementwise":
                term = term.args[1]
            case "elem" if term.args[0].op == "each":
                term = term.args[0].args[0]
            case _:
                return False


def _certain(found: Difference, counted: Measured, held: Rows, meta: Term) -> bool:
    """Whether the change is along the counted axis and not what the metadata itself prescribed."""
    change = found.change
    if change is None:
        return False
    if change.kind in {"sort", "flip"}:
        return not _is_within_item(change)
    if change.kind == "repeat":
        return _repeats_rows(change)
    if change.kind in {"filter", "items", "align", "pool"}:
        return True
    if change.kind == "unpad":
        return not found.rows_changed or counted.axis != "?"
    if change.kind == "pick":
        return is_ordered_pick(change) or is_selection(change)
    if change.kind in {"slice", "piece"}:
        if not counted.cut_by and _prescribed(change, counted, meta):
            return False
        if change.kind == "slice" and not found.rows_changed and counted.source.op in {"shape", "len", "numel"}:
            return False  # a length of a piece beside the whole: the piece may be what is meant
        return _same_axis(change, counted.axis)
    if change.kind == "pad":
        return _same_axis(change, counted.axis) or any(
            _measures(inner, found.part) and _axis_of(inner) == counted.axis for inner in change.term.args[1].walk()
        )
    return False


def _is_within_item(change: Change) -> bool:
    """Whether the rows of each item were reordered, not the items: as many rows as before."""
    term = change.term.args[0]
    while term.op in {"cast", "host", "moved", "copy", "typed_like", "item", "tensor", "pad", "view", "elementwise"}:
        if term.op == "item" and any(inner.op == "elem" for inner in term.args[1].walk()):
            return True  # x[start:end] for each segment
        term = term.args[1 if term.op in {"view", "elementwise"} else 0]
    return bool(term.op == "elem")


def _repeats_rows(change: Change) -> bool:
    """Whether each row of a tensor was repeated: `x.repeat_interleave(n, dim=0)`."""
    call = change.term.node
    if change.term.op != "repeat_interleave" or not isinstance(call, ast.Call) or change.detail[0].is_const(1):
        return False
    axes = [word.value for word in call.keywords if word.arg in {"dim", "axis"}] or call.args[-1:]
    return isinstance(axes[0], ast.Constant) and axes[0].value == 0 and len(call.args) + len(call.keywords) > 1


def _prescribed(change: Change, counted: Measured, meta: Term) -> bool:
    """Whether the rows were cut to what the metadata says: `x[:total]` with the last boundary or a sum."""
    ends = [plain(part) for inner in change.detail for part in ([inner] if inner.op != "slice" else inner.children())]
    if counted.source.op in {"shape", "len", "numel"}:
        return counted.source in ends
    return any(inner is counted.source or inner is meta for end in ends for inner in end.walk())


def is_ordered_pick(change: Change) -> bool:
    """Whether the items of a collection were taken in the order of a list of numbers."""
    return change.kind == "pick" and change.term.op == "item" and change.term.args[1].op == "elem"


def is_selection(change: Change) -> bool:
    """Whether rows were selected by a mask."""
    index = change.detail[0]
    return change.kind == "pick" and (
        index.op in {"Eq", "Gt", "Lt", "GtE", "LtE", "not", "and", "or", "nonzero"}
        or _is_best(index)
        or (index.op == "cast" and index.args[1] == "bool")
        or (index.op == "Invert" and index.args[0].op == "cast" and index.args[0].args[1] == "bool")
    )


def _is_best(index: Term) -> bool:
    """Whether an index names the k best rows: `scores.topk(k).indices`."""
    if index.op not in {"attr", "item"} or index.args[0].op != "call":
        return False
    is_indices = index.args[1] == "indices" if index.op == "attr" else index.args[1].is_const(1)
    return is_indices and str(index.args[0].args[0]).rpartition(".")[2] == "topk"


def _measures(term: Term, part: Part) -> bool:
    length = length_of(term)
    return length is not None and any(inner.root is part.root for inner in length.rows.flat)


def _axis_of(term: Term) -> int | None:
    length = length_of(term)
    return None if length is None else length.axis


def _same_axis(change: Change, axis: int | str | None) -> bool:
    if axis == "?":
        return False
    at = changed_axis(change)
    if at is None:
        return False
    if axis is None:
        return at in {0, -1}
    return at == axis or (axis == -1 and at == 1) or (axis == 1 and at == -1)


def changed_axis(change: Change) -> int | None:
    """The axis that a slice, a split or padding changes; None if unknown."""
    term = change.term
    match term.op:
        case "item":
            base, index = term.args
            if _rearranged(base):
                return None
            if index.op == "slice":
                return 0
            if index.op == "tuple" and all(part.op == "slice" or part.is_const(...) for part in index.children()):
                at = [position for position, part in enumerate(index.args) if part in change.detail]
                if len(at) != 1:
                    return None
                has_dots = any(part.is_const(...) for part in index.args[: at[0]])
                return at[0] - len(index.args) if has_dots else at[0]
            return None
        case "narrow" | "split" | "chunk":
            axis = term.args[1] if term.op == "narrow" else term.args[2]
            return axis.value if isinstance(axis.value, int) and not _rearranged(term.args[0]) else None
        case "pad":
            amounts = term.args[1]
            if amounts.op in {"tuple", "list"} and len(amounts.args) % 2 == 0:
                filled = [at // 2 for at, part in enumerate(amounts.args) if not part.is_const(0)]
                return -1 - filled[0] if len(set(filled)) == 1 else None
    return None


def pads_in_front(change: Change) -> bool:
    """Whether padding certainly puts rows in front."""
    amounts = change.term.args[1]
    return (
        change.term.op == "pad"
        and amounts.op in {"tuple", "list"}
        and len(amounts.args) % 2 == 0
        and any(not part.is_const(0) for part in amounts.args[::2])
    )


def is_shift(change: Change) -> bool:
    """Whether a slice drops a fixed number of rows at an end, as `x[:-1]` and `x[1:]` of next-token pairs do."""
    return change.kind == "slice" and all(
        part.op == "const" for inner in change.detail if inner.op == "slice" for part in inner.children()
    )


def shown(argument: Argument) -> str:
    """How a message calls a value: by its keyword, key or variable, or as it is written where it has no name."""
    if argument.name and argument.name != argument.role:
        return argument.name
    text = " ".join(ast.unparse(argument.node).split())
    return text if text and len(text) <= 50 else argument.name or "the value"


def place(view: View, term: Term) -> str:
    """` (line 12)` of the expression that made a value."""
    return view.line(term.node)


def written(term: Term, otherwise: str) -> str:
    """A value as it is written, cut to a readable length."""
    if term.node is None:
        return otherwise
    text = " ".join(ast.unparse(term.node).split())
    return f"`{text}`" if len(text) <= 50 else otherwise
