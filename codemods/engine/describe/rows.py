"""Which rows a tensor holds: the parts it was concatenated from, and what was done to them since."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from shapecheck.codemods.engine.describe.shifted import balanced, source_of_shift
from shapecheck.codemods.engine.terms import Term

# Modules and functions that map each row by itself; matched on the last part of the callee's path.
_ROWWISE = re.compile(
    r"(^|_)(norm\d*|layer_?norm|rms_?norm|ln\w?|proj\w*|projector|linear|embed\w*|to_?(q|k|v|kv|qkv|out)\d?|w?(q|k|v|kv|qkv|o)|"
    r"dropout|act|act_fn|gelu|silu|relu|mlp|ffn|fc\d*|rope|rotary\w*|wqkv|in_proj|out_proj|modulate|lm_head)$",
    re.IGNORECASE,
)

# Operations that give the same rows in the same order, with the operand first.
_SAME = {"cast", "host", "moved", "copy", "typed_like", "entered"}


@dataclass(frozen=True)
class Change:
    """One operation on the rows: `kind` is pad, slice, pick, shard, roll, flip, sort, pool, repeat or write."""

    kind: str
    term: Term  # the whole operation
    detail: tuple[Term, ...]  # its parameters

    @property
    def same_as(self) -> tuple[object, ...]:
        """Equal for equal operations on whatever tensor."""
        return (self.kind, self.detail)


@dataclass(frozen=True)
class Part:
    """Rows that come from one value.

    Attributes:
        root: the value.
        changes: what was done to its rows, first to last.
        each: whether `root` is an item of a collection and the part stands for all items in turn.
        measured: the term that measured it, for a part of a list of lengths.
    """

    root: Term
    changes: tuple[Change, ...] = ()
    each: bool = False

    def then(self, change: Change) -> "Part":
        """The part after one more operation."""
        return replace(self, changes=(*self.changes, change))

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for parts with the same rows."""
        return (self.root, tuple(change.same_as for change in self.changes), self.each)


@dataclass(frozen=True)
class Rows:
    """The parts in order, and what was done to all of them together."""

    parts: tuple[Part, ...]
    changes: tuple[Change, ...] = ()
    known: bool = True  # False: some part may be missing from the list

    @property
    def flat(self) -> tuple[Part, ...]:
        """The parts, with the common changes moved into a single part where there is only one."""
        if len(self.parts) == 1 and self.changes:
            return (replace(self.parts[0], changes=(*self.parts[0].changes, *self.changes)),)
        return self.parts

    @property
    def all_changes(self) -> tuple[Change, ...]:
        """Every change to any part."""
        return (*(change for part in self.parts for change in part.changes), *self.changes)


def rows_of(term: Term) -> Rows:
    """The rows of a tensor or list. A value that is not understood is one part of its own."""
    match term.op:
        case op if op in _SAME:
            return rows_of(term.args[0])
        case "elementwise":
            return rows_of(term.args[1])
        case "view":
            return rows_of(term.args[1])
        case "repadded":
            return Rows((Part(term),))
        case "pad" | "cat" | "Add" if (source := source_of_shift(term)) is not None:
            return _changed(source, Change("roll", term, ()))
        case "cat" | "Add" | "list" if (source := balanced(term)) is not None:
            return _changed(source, Change("roll", term, ()))
        case "pad":
            return _pad(term)
        case "cat":
            return _cat(term)
        case "list" | "tuple" if any(part.op == "star" for part in term.children()):
            return _stream(term)
        case "list" | "tuple":
            return Rows((Part(term),))
        case "Add" if _joins_lists(term):
            joined = _concatenated([_listed(side) for side in term.children()])
            return joined if joined.parts else Rows((Part(term),))
        case "Add" | "Sub" | "Mult" | "Div":
            return _arithmetic(term)
        case "Pow" | "USub" | "Invert":
            return rows_of(term.args[0])
        case "store" | "filled":
            return _written(term)
        case "full_like":
            return rows_of(term.args[0])
        case "item":
            return _item(term)
        case "picked" | "narrow" if _of_features(term.args[1]):
            return Rows((Part(term),))
        case "picked":
            return _changed(term.args[0], Change("pick", term, (term.args[2],)))
        case "unpadded":
            return _changed(term.args[0], Change("unpad", term, (term.args[1],)))
        case "narrow":
            return _changed(term.args[0], Change("slice", term, term.args[2:4]))
        case "roll":
            return _changed(term.args[0], Change("roll", term, term.args[1:2]))
        case "flip":
            return _changed(term.args[0], Change("flip", term, ()))
        case "sorted":
            return _changed(term.args[0], Change("sort", term, term.args[1:2]))
        case "mean" | "sum" | "max" | "min" if _pools(term):
            return _changed(term.args[0].args[1], Change("pool", term, term.args[0].args[3:]))
        case "repeat" | "repeat_interleave":
            return _changed(term.args[0], Change("repeat", term, term.args[1:2]))
        case "call":
            return _call(term)
        case "flattened":
            return _collection(term.args[0])
        case "elem":
            return _element(term)
        case "attr" if term.args[0].op == "elem":
            return _field(term.args[0], term.args[1], term)
        case "tensor":
            return _stream(term.args[0])
        case "each" | "extend" if term.op == "extend" or term.args[0].op == "star" or term.args[0].op == "elem":
            joined = _stream(term)
            return joined if joined.parts else Rows((Part(term),))
    return Rows((Part(term),))


def _element(term: Term) -> Rows:
    """The rows of one item of a collection: of a comprehension, of a sorted or cut list, of `x.split(n)`."""
    source = term.args[0]
    match source.op:
        case "each" if source.args[0].op not in {"star", "several"}:
            inner = rows_of(source.args[0])
            if len(inner.parts) == 1:
                filters = tuple(Change("filter", source, (test,)) for test in source.args[2:])
                return Rows(
                    (replace(inner.parts[0], changes=(*inner.parts[0].changes, *filters)),), inner.changes, inner.known
                )
            return inner if len(source.args) == 2 else Rows((Part(term),))
        case "copy":
            return rows_of(term.pool.make("elem", source.args[0]))
        case "sorted" | "flip":
            kind = "sort" if source.op == "sorted" else "flip"
            return _then(rows_of(term.pool.make("elem", source.args[0])), Change(kind, source, tuple(source.args[1:])))
        case "item" if source.args[1].op == "slice" and not _is_full_slice(source.args[1]):
            return _then(rows_of(term.pool.make("elem", source.args[0])), Change("items", source, (source.args[1],)))
        case "split" | "chunk" if not _splits_features(source):
            return _changed(source.args[0], Change("piece", source, source.args[1:]))
    return Rows((Part(term),))


def _runs(term: Term) -> Iterator[Term]:
    """What a list display is made of: its starred values, and lists of the single items between them."""
    single: list[Term] = []
    for part in (*term.children(), None):
        if part is not None and part.op != "star":
            single.append(part)
            continue
        if single:
            yield term.pool.make("list", *single, node=single[0].node)
            single = []
        if part is not None:
            yield part.args[0]


def _then(rows: Rows, change: Change) -> Rows:
    """The rows of an item of a collection, after a change of the collection."""
    return Rows(tuple(part.then(change) for part in rows.parts), rows.changes, rows.known)


def _field(base: Term, key: Term | str, term: Term) -> Rows:
    """The rows of a field of an item: a sorted list of samples has sorted fields."""
    source = base.args[0]
    pool = term.pool
    if source.op == "each" and source.args[0].op in {"tuple", "list", "dict"} and isinstance(key, Term):
        value = pool.item(source.args[0], key)
        if value.op != "item":
            return rows_of(pool.make("elem", pool.make("each", value, *source.args[1:], node=source.node)))
    if source.op in {"each", "sorted", "flip", "copy", "item"}:
        rows = rows_of(base)
        if len(rows.parts) == 1 and rows.parts[0].root is not base and not rows.changes:
            part = rows.parts[0]
            root = (
                pool.item(part.root, key, term.node)
                if isinstance(key, Term)
                else pool.make("attr", part.root, key, node=term.node)
            )
            inner = rows_of(root)
            if len(inner.parts) == 1 and not inner.changes:
                first = inner.parts[0]
                return Rows((replace(first, changes=(*first.changes, *part.changes)),), (), inner.known)
    return Rows((Part(term),))


def _stream(term: Term) -> Rows:
    """The rows of a list of tokens: an item is a row, a starred value gives all of its rows."""
    match term.op:
        case "Add" | "list" if (source := source_of_shift(term) or balanced(term)) is not None:
            return _changed(source, Change("roll", term, ()))
        case "each" if term.args[0].op == "star":
            element, _, *tests = term.args
            inner = _stream(element.args[0])
            filters = tuple(Change("filter", term, (test,)) for test in tests)
            return Rows(tuple(replace(part, each=True) for part in inner.flat), (*filters,), inner.known)
        case "each" if len(term.args) == 2 and term.args[0].op == "elem" and term.args[0].args[0] is term.args[1]:
            return _stream(term.args[1])  # [token for token in row]
        case "Add":
            return _concatenated([_stream(part) for part in term.children()])
        case "extend":
            return _concatenated([_stream(term.args[0]), _stream(term.args[1])])
        case "list" | "tuple" if any(part.op == "star" for part in term.children()):
            return _concatenated([_stream(part) for part in _runs(term)])
        case "list" | "tuple" if len(term.args) == 1 and term.args[0].op in {"each", "Add", "extend", "list", "item"}:
            return _stream(term.args[0])  # torch.tensor([tokens]): a batch of one
        case "list" | "tuple" | "Mult" | "each":
            return Rows((Part(term),))
    return rows_of(term)


def _changed(source: Term, change: Change) -> Rows:
    rows = rows_of(source)
    if len(rows.parts) == 1 and not rows.changes and not rows.parts[0].each:
        return Rows((rows.parts[0].then(change),), (), rows.known)
    return replace(rows, changes=(*rows.changes, change))


def _cat(term: Term) -> Rows:
    axis, parts = term.args
    whole = _collection(parts)
    if axis.op == "const" and axis.value == -1 and len(whole.parts) == 1 and whole.known:
        # Features side by side, or rows of a 1-D tensor: both have the rows of the whole.
        return Rows((Part(term),))
    return whole if whole.parts else Rows((Part(term),))


def _collection(term: Term) -> Rows:
    """The rows of a list of tensors, one after the other."""
    match term.op:
        case "list" | "tuple":
            found = [_collection(part.args[0]) if part.op == "star" else rows_of(part) for part in term.children()]
            return _concatenated(found)
        case "Add":
            return _concatenated([_collection(part) for part in term.children()])
        case "append":
            return _concatenated([_collection(term.args[0]), rows_of(term.args[1])])
        case "extend":
            return _concatenated([_collection(term.args[0]), _collection(term.args[1])])
        case "each":
            return _each(term)
        case "copy":
            return _collection(term.args[0])
        case "sorted" | "flip":
            inner = _collection(term.args[0])
            kind = "sort" if term.op == "sorted" else "flip"
            return replace(inner, changes=(*inner.changes, Change(kind, term, tuple(term.args[1:]))))
        case "item" if term.args[1].op == "slice":
            inner = _collection(term.args[0])
            return replace(inner, changes=(*inner.changes, Change("slice", term, (term.args[1],))))
    return Rows((Part(term.pool.make("elem", term), (), each=True),))


def _concatenated(found: list[Rows]) -> Rows:
    parts: list[Part] = []
    known = True
    for rows in found:
        known = known and rows.known
        if rows.changes and len(rows.parts) > 1:
            # Changes of a group cannot be told apart by part: keep the group opaque.
            known = False
        parts.extend(part for part in rows.flat if not _is_empty(part.root))
    return Rows(tuple(parts), (), known)


def _is_empty(root: Term) -> bool:
    """Whether a value certainly has no rows: `np.empty(0)`, `torch.tensor([])`."""
    return (root.op == "full" and root.args[1].is_const(0)) or (root.op == "list" and not root.args)


def _each(term: Term) -> Rows:
    element, _, *tests = term.args
    inner = _collection(element.args[0]) if element.op == "star" else rows_of(element)
    if element.op == "several":
        inner = _concatenated([rows_of(part) for part in element.children()])
    changes = tuple(Change("filter", term, (test,)) for test in tests)
    return Rows(tuple(replace(part, each=True) for part in inner.parts), (*inner.changes, *changes), inner.known)


def _pad(term: Term) -> Rows:
    source, amounts, _ = term.args
    return _changed(source, Change("pad", term, (amounts,)))


def _arithmetic(term: Term) -> Rows:
    left, right = rows_of(term.args[0]), rows_of(term.args[1])
    if len(right.parts) > len(left.parts) or (right.all_changes and not left.all_changes):
        return right
    return left


def _joins_lists(term: Term) -> bool:
    """Whether a sum is one of Python lists: some operand is certainly a list."""
    return any(_is_list(side) for side in term.children())


def _is_list(term: Term) -> bool:
    """Whether a value is a display, a comprehension, `list(x)`, a list times a number, or a sum of such."""
    match term.op:
        case "list" | "each":
            return True
        case "Mult":
            return bool(term.args[0].op == "list")
        case "copy":
            return (
                isinstance(term.node, ast.Call) and isinstance(term.node.func, ast.Name) and term.node.func.id == "list"
            )
        case "Add":
            return _joins_lists(term)
    return False


def _listed(term: Term) -> Rows:
    """The rows of one operand of a sum of lists; `[value] * len(x)` has one item for each of x."""
    if term.op == "list" and not term.args:
        return Rows(())
    if term.op == "Add":
        return _concatenated([_listed(side) for side in term.children()])
    if term.op == "Mult" and term.args[0].op == "list" and len(term.args[0].args) == 1 and term.args[1].op == "len":
        return rows_of(term.args[1].args[0])
    if term.op == "each" and term.args[0].op == "star":
        return _stream(term)
    return rows_of(term)


def _pools(term: Term) -> bool:
    """Whether several rows become one: `x.unflatten(0, (-1, n)).mean(1)`."""
    if len(term.args) != 2 or not term.args[1].is_const(1) or term.args[0].op != "view":
        return False
    name, _, *shape = term.args[0].args
    return name == "unflatten" and len(shape) == 2 and shape[0].is_const(0) and len(shape[1].args) == 2


def _written(term: Term) -> Rows:
    """The rows of a value after values were stored into it; those of a fresh buffer are what was stored: not
    followed."""
    target = term.args[0]
    while target.op in {"store", "filled"}:
        target = target.args[0]
    return Rows((Part(term),)) if _is_buffer(target) else rows_of(target)


def _is_buffer(term: Term) -> bool:
    """Whether a value was made to be written to: `torch.empty(n)`, `torch.zeros_like(x)`, `[0] * n`."""
    while term.op in {"cast", "moved", "host", "typed_like", "tensor", "view"}:
        term = term.args[1] if term.op == "view" else term.args[0]
    return term.op in {"full", "full_like", "list", "Mult"}


def _item(term: Term) -> Rows:
    base, index = term.args
    if base.op == "elem" and index.op == "const" and type(index.value) in {str, int}:
        return _field(base, index, term)
    if index.op == "elem" or (base.op == "item" and base.args[1].op == "elem" and index.op == "const"):
        return _picked(term)
    if index.op == "tuple":
        parts = [part for part in index.children() if not _is_full_slice(part) and not _is_none(part)]
        if not parts:
            return rows_of(base)
        slices = [part for part in parts if part.op == "slice"]
        others = [part for part in parts if part.op not in {"slice", "const"}]
        if len(slices) == 1 and not others:
            position = list(index.args).index(slices[0])
            if position == len(index.args) - 1 and any(part.is_const(...) for part in parts) and len(index.args) == 2:
                return Rows((Part(term),))  # x[..., :d]: features
            if position > 1 and not any(part.is_const(...) for part in parts):
                return Rows((Part(term),))  # x[:, :, :d]: features, or heads
            return _changed(base, Change("slice", term, (slices[0],)))
        if len(others) == 1 and not slices and all(part is others[0] for part in parts):
            return _changed(base, Change("pick", term, (others[0],)))
        return Rows((Part(term),))
    if index.op == "slice":
        return rows_of(base) if _is_full_slice(index) else _changed(base, Change("slice", term, (index,)))
    if index.op == "const":
        if isinstance(index.value, int) and not isinstance(index.value, bool):
            if base.op in {"chunk", "split"} and _splits_features(base):
                return rows_of(base.args[0])
            if base.op in {"view", "pad", "cast"}:
                return rows_of(base)
        if _is_none(index) or index.is_const(...):
            return rows_of(base)
        return Rows((Part(term),))
    if base.op in {"chunk"}:
        return _changed(base.args[0], Change("shard", term, (base.args[1], index)))
    if index.op in {"sym", "global", "elem", "index_in", "round"}:
        return Rows((Part(term),))
    return _changed(base, Change("pick", term, (index,)))


def _picked(term: Term) -> Rows:
    """`samples[i]`, or a field of it, for i in some order: an item of the samples in turn, in that order."""
    base, index = term.args
    if index.op != "elem":
        rows = _picked(base)
        part = rows.parts[0]
        if part.root is base or type(index.value) not in {str, int}:
            return Rows((Part(term),))
        inner = rows_of(term.pool.item(part.root, index, term.node))
        return Rows(
            tuple(replace(one, changes=(*one.changes, *part.changes)) for one in inner.parts),
            inner.changes,
            inner.known,
        )
    if _owner(base).op == "elem":
        return _changed(base, Change("pick", term, (index,)))  # ids[m] for ids, m in zip(...)
    order = index.args[0]
    while order.op in {"copy", "host", "moved", "cast", "tensor"}:
        order = order.args[0]
    if order.op in {"arange", "zip", "enumerate", "while", "keys", "items", "list", "tuple"}:
        return Rows((Part(term),))
    return _then(rows_of(term.pool.make("elem", base, node=term.node)), Change("pick", term, (order,)))


def _owner(term: Term) -> Term:
    """The value that a field belongs to."""
    while term.op in {"item", "attr"}:
        term = term.args[0]
    return term


def _splits_features(term: Term) -> bool:
    return _of_features(term.args[2])


def _of_features(axis: Term) -> bool:
    """Whether an axis may be one behind the tokens."""
    return axis.op == "const" and isinstance(axis.value, int) and (axis.value == -1 or axis.value >= 2)


def _is_none(term: Term) -> bool:
    return term.op == "const" and bool(term.args[0] == "NoneType")


def _is_full_slice(term: Term) -> bool:
    return term.op == "slice" and all(part.op == "const" and part.value is None for part in term.args)


def _call(term: Term) -> Rows:
    path, *args = term.args
    name = path.rpartition(".")[2]
    if name == "gather" and len(args) == 3 and isinstance(args[2], Term) and args[1].value in {-1, 1}:
        return rows_of(args[2])  # one of the columns for each row of the index
    values = [arg for arg in args if isinstance(arg, Term) and arg.op not in {"self", "keyword", "splat"}]
    receiver_first = path.startswith(".") and args and isinstance(args[0], Term) and args[0].op == "self"
    if values and _ROWWISE.search(name) and (receiver_first or not path.startswith(".") or len(values) == 1):
        return rows_of(values[0])
    return Rows((Part(term),))


def roots(term: Term) -> Iterator[Term]:
    """The values that the rows of a tensor come from."""
    for part in rows_of(term).parts:
        yield part.root
