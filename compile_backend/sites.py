"""Where a graph attends: SDPA, FlexAttention, and softmax(Q K^T * scale + mask) V written out."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import sympy  # type: ignore[import-untyped]
from shapecheck.compile_backend import blocks, views
from shapecheck.compile_backend.elements import (
    ABSORBING,
    MASKED,
    Elements,
    Unknown,
    describe,
)
from shapecheck.compile_backend.expressions import (
    Affine,
    Constant,
    Formula,
    Number,
    Quotient,
    Score,
    Select,
    Var,
    conjunction,
    disjunction,
    leaves,
    negation,
)
from shapecheck.compile_backend.flex import Flex
from shapecheck.compile_backend.normalize import Normalized
from shapecheck.compile_backend.reading import Memory, opname, shape, tensor, value
from torch import Tensor, fx

B, H, I, J, D = (Affine.of(Var(name)) for name in "bhijd")  # noqa: E741
Axes = tuple[str, ...]
"""What the axes of an operand count: `b` samples, `h` heads, `s` rows, `d` the head dim."""


@dataclass(frozen=True, slots=True)
class Operand:
    """Queries, keys or values.

    Attributes:
        node: in the normalized graph.
        axes: what its axes count.
        groups: how many query heads share each of its heads.
    """

    node: fx.Node
    axes: Axes
    groups: int = 1


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention of a normalized graph.

    Attributes:
        form: "sdpa", "flex_attention" or "softmax".
        output: the node of the result.
        axes: what the axes of the result count.
        q, k, v: the operands.
        mask: the node of the mask of SDPA, or of the `mask_mod` of FlexAttention; None without one.
        scores: the node of Q K^T where it is written out; None where one operator attends.
        logits: what the softmax is taken of; None where one operator attends.
        dropout: the probability with which weights are dropped.
        causal: whether SDPA was asked for its own causal mask.
        scale: what is known of the scale of an operator: a number, or None for the default.
        weights: the nodes from the weights back to the logits, where one operator attends none.
        obstacle: what keeps it from being attention under a mask; `""` if nothing does.
        flex: the call of FlexAttention.
        grouped: whether PyTorch itself demands that there be a multiple of the key heads of query heads.
    """

    form: str
    output: fx.Node
    axes: Axes
    q: Operand
    k: Operand
    v: Operand
    mask: fx.Node | None = None
    scores: fx.Node | None = None
    logits: fx.Node | None = None
    dropout: float = 0.0
    causal: bool = False
    scale: float | None = None
    weights: tuple[fx.Node, ...] = ()
    obstacle: str = ""
    flex: Flex | None = None
    grouped: bool = False


def find(normalized: Normalized) -> Iterator[Attention]:
    """The attentions of a graph, in its order."""
    for node in normalized.graph.nodes:
        name = opname(node)
        found = None
        if node in normalized.flex:
            found = _flex(node, normalized.flex[node])
        elif node in normalized.opaque:
            continue
        elif name == "scaled_dot_product_attention":
            found = _sdpa(node)
        elif name in ("matmul", "bmm", "einsum"):
            found = _written_out(node)
        if found is not None:
            if node in normalized.varying or found.scores in normalized.varying:
                found = replace(found, obstacle="a vmap maps over the attention")
            elif found.dropout in normalized.floats:
                found = replace(found, obstacle="its dropout has a probability that varies from call to call")
            yield found


# Scaled-dot-product attention ---------------------------------------------------------------------------------------

_SDPA = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


def _sdpa(node: fx.Node) -> Attention | None:
    given = {**dict(zip(_SDPA, node.args, strict=False)), **node.kwargs}
    q, k, v, mask = (given.get(name) for name in _SDPA[:4])
    scale = given.get("scale")
    if not all(isinstance(one, fx.Node) and isinstance(value(one), Tensor) for one in (q, k, v)):
        return None
    if scale is not None and not isinstance(scale, int | float):
        return None
    assert isinstance(q, fx.Node)
    assert isinstance(k, fx.Node)
    assert isinstance(v, fx.Node)
    rank = tensor(q).dim()
    if rank not in (3, 4) or tensor(k).dim() != rank or tensor(v).dim() != rank:
        return None
    axes: Axes = ("b", "h", "s", "d")
    if rank == 3:
        own = isinstance(mask, fx.Node) and tensor(mask).dim() == 3 and shape(mask)[0] != 1
        axes = ("b" if own else "h", "s", "d")
    return Attention(
        form="sdpa",
        output=node,
        axes=axes,
        q=Operand(q, axes),
        k=Operand(k, axes),
        v=Operand(v, axes),
        mask=mask if isinstance(mask, fx.Node) else None,
        dropout=_probability(given.get("dropout_p", 0.0)),
        causal=bool(given.get("is_causal", False)),
        scale=float(scale) if isinstance(scale, int | float) else None,
        grouped=given.get("enable_gqa") is True,
    )


def _probability(given: object) -> float:
    return float(given) if isinstance(given, int | float) else 1.0


# FlexAttention ------------------------------------------------------------------------------------------------------


def _flex(node: fx.Node, flex: Flex) -> Attention:
    axes: Axes = ("b", "h", "s", "d")
    obstacle = flex.obstacle
    (call,) = node.all_input_nodes
    if any(other.users for other in call.users if other is not node):
        obstacle = obstacle or "its log-sum-exp is used as well"
    return Attention(
        form="flex_attention",
        output=node,
        axes=axes,
        q=Operand(flex.q, axes),
        k=Operand(flex.k, axes),
        v=Operand(flex.v, axes),
        mask=flex.mask,
        scale=flex.scale,
        obstacle=obstacle,
        flex=flex,
        grouped=True,
    )


# Written out --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Product:
    """Two operands of a product that sums over one axis, with their axes as letters."""

    left: fx.Node
    right: fx.Node
    left_axes: str
    right_axes: str
    out_axes: str


def _product(node: fx.Node) -> _Product | None:
    name = opname(node)
    if name == "einsum":
        equation, operands = node.args[:2]
        if not isinstance(operands, list | tuple) or len(operands) != 2 or not isinstance(equation, str):
            return None
        equation = equation.replace(" ", "")
        if "." in equation or "->" not in equation or not all(isinstance(one, fx.Node) for one in operands):
            return None
        inputs, out = equation.split("->")
        left, right = inputs.split(",")
        if any(len(set(letters)) != len(letters) for letters in (left, right, out)):
            return None
        a, b = operands
        assert isinstance(a, fx.Node)
        assert isinstance(b, fx.Node)
        return _Product(a, b, left, right, out)
    factors = node.args[1:3] if name == "baddbmm" else node.args[:2]
    if name not in ("matmul", "bmm", "baddbmm") or not all(isinstance(one, fx.Node) for one in factors):
        return None
    a, b = factors
    assert isinstance(a, fx.Node)
    assert isinstance(b, fx.Node)
    rank = tensor(a).dim()
    if rank not in (3, 4) or tensor(b).dim() != rank or shape(a)[:-2] != shape(b)[:-2]:
        return None
    lead = "bh"[4 - rank :] if rank == 4 else "h"
    return _Product(a, b, f"{lead}xy", f"{lead}yz", f"{lead}xz")


_PASSED = {
    *("dropout", "to", "to_copy", "clone", "contiguous", "type_as", "alias", "view", "reshape", "expand"),
}


def _written_out(node: fx.Node) -> Attention | None:
    outer = _product(node)
    if outer is None:
        return None
    # weights @ V; einsum may name V first.
    for weights, v, weight_axes, v_axes in (
        (outer.left, outer.right, outer.left_axes, outer.right_axes),
        (outer.right, outer.left, outer.right_axes, outer.left_axes),
    ):
        softmax, dropout, passed = _softmax_of(weights)
        if softmax is None:
            continue
        found = _around(node, softmax, dropout, passed, weight_axes, v, v_axes, outer.out_axes)
        if found is not None:
            return found
    return None


def _softmax_of(node: fx.Node) -> tuple[fx.Node | None, float, tuple[fx.Node, ...]]:
    """The softmax that weights come from, the dropout and the nodes on the way."""
    dropout, passed = 0.0, []
    while True:
        passed.append(node)
        name = opname(node)
        if name in ("softmax", "special_softmax", "safe_softmax"):
            return node, dropout, tuple(passed)
        inner = node.args[0] if node.args else None
        if name not in _PASSED or not isinstance(inner, fx.Node) or shape(inner) != shape(node):
            return None, 0.0, ()
        if name == "dropout":
            p = node.args[1] if len(node.args) > 1 else node.kwargs.get("p", 0.5)
            train = node.args[2] if len(node.args) > 2 else node.kwargs.get("train", True)
            dropout = max(dropout, _probability(p) if train else 0.0)
        node = inner


def _around(
    output: fx.Node,
    softmax: fx.Node,
    dropout: float,
    passed: tuple[fx.Node, ...],
    weight_axes: str,
    v: fx.Node,
    v_axes: str,
    out_axes: str,
) -> Attention | None:
    logits = softmax.args[0]
    axis = softmax.args[1] if len(softmax.args) > 1 else softmax.kwargs.get("dim")
    if not isinstance(logits, fx.Node) or not isinstance(axis, int):
        return None
    rank = tensor(logits).dim()
    if rank not in (3, 4) or axis % rank != rank - 1 or tensor(logits).dim() != len(weight_axes):
        return None
    scores, obstacle = _scores(logits)
    inner = None if scores is None or shape(scores) != shape(logits) else _product(scores)
    if inner is None:
        axes = ("b", "h", "s", "d")[-len(out_axes) :]
        if not obstacle:
            return None
        values = Operand(v, axes)
        return Attention("softmax", output, axes, values, values, values, logits=logits, obstacle=obstacle)
    # Letters of the scores: their last axis is the keys', the one before the queries'.
    *lead, rows, columns = list(inner.out_axes)
    if rows not in inner.left_axes or rows in inner.right_axes:
        return None
    (summed,) = set(inner.left_axes) & set(inner.right_axes) - set(inner.out_axes) or {""}
    if not summed or set(inner.left_axes) != {*lead, rows, summed} or set(inner.right_axes) != {*lead, columns, summed}:
        return None
    names = dict(zip(lead, "bh" if len(lead) == 2 else "h", strict=True)) | {rows: "s", columns: "s", summed: "d"}
    q = Operand(inner.left, tuple(names[letter] for letter in inner.left_axes))
    k = Operand(inner.right, tuple(names[letter] for letter in inner.right_axes))
    # Letters of weights @ V, where the weights' axes are those of the scores.
    *lead, rows, columns = list(weight_axes)
    if columns not in v_axes or columns in out_axes or rows in v_axes:
        return None
    free = set(v_axes) - {*lead, columns}
    if len(free) != 1 or set(out_axes) != {*lead, rows, *free} or set(v_axes) != {*lead, columns, *free}:
        return None
    (width,) = free
    names = dict(zip(lead, "bh" if len(lead) == 2 else "h", strict=True)) | {rows: "s", columns: "s", width: "d"}
    return Attention(
        form="softmax",
        output=output,
        axes=tuple(names[letter] for letter in out_axes),
        q=q,
        k=k,
        v=Operand(v, tuple(names[letter] for letter in v_axes)),
        scores=scores,
        logits=logits,
        dropout=dropout,
        weights=(*passed, logits),
    )


_ARITHMETIC = {"mul", "div", "add", "sub", "where", "masked_fill", "to", "to_copy", "type_as", "clone", "contiguous"}


def _is_view(node: fx.Node) -> bool:
    return opname(node) != "detach" and views.source(node, _indices(node)) is not None


def _scores(logits: fx.Node) -> tuple[fx.Node | None, str]:
    """The one product that the logits are made from; or None, and what was found instead of a product."""
    found: set[fx.Node] = set()
    seen: set[fx.Node] = set()
    obstacle = ""
    rest = [logits]
    while rest:
        node = rest.pop()
        if node in seen or not isinstance(value(node), Tensor) or not tensor(node).dtype.is_floating_point:
            continue
        seen.add(node)
        if opname(node) in ("matmul", "bmm", "baddbmm", "einsum"):
            found.add(node)
        elif opname(node) in _ARITHMETIC or _is_view(node):
            rest += node.all_input_nodes
        elif node.op == "call_function" and shape(node) == shape(logits):
            obstacle = f"{describe(node)} stands between the scores and the softmax"
    return (found.pop(), "") if len(found) == 1 else (None, obstacle)


def _indices(node: fx.Node) -> tuple[Affine, ...]:
    """The running indices of scores: sample, head, query, key, as far as there are axes."""
    return (B, H, I, J)[-tensor(node).dim() :] if tensor(node).dim() <= 4 else ()


# Masks and operands -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mask:
    """What an attention lets through.

    Attributes:
        formula: true where the query sees the key.
        empty: what a query without keys gets: "zeros", "mean" (of the values of all keys), "mean of added" (the
            same, and the scores, which the fill was added to, get gradients), "mean of mixed" (the same, and some of
            the scores do), "nan", or "unknown".
        fills: the numbers in masked places; none for a mask of truth values.
        factors: what scores are multiplied with, each with its power; where one operator attends none.
        foreign: why the blocks of FlexAttention may hide more, or less, than this; `""` if they do not.
    """

    formula: Formula
    empty: str
    fills: tuple[float, ...] = ()
    factors: tuple[tuple[float | fx.Node, int], ...] = ()
    foreign: str = ""


def mask_of(attention: Attention, normalized: Normalized, memory: Memory) -> Mask:
    """The mask of an attention.

    Raises:
        Unknown: if it is none, or not understood.
    """
    if attention.form == "sdpa":
        assert attention.mask is not None
        return _mask_of_sdpa(attention, normalized, memory)
    if attention.flex is not None:
        return _mask_of_flex(attention, attention.flex, normalized, memory)
    assert attention.logits is not None
    assert attention.scores is not None
    if not memory.same_region(attention.scores, attention.output):
        raise Unknown("gradients or autocast are switched between the scores and the result")
    used = memory.position(attention.output)
    if any(memory.changed(one, used) for one in attention.weights[:-1]):
        raise Unknown("the weights are changed in place")
    if inside := _between(attention.scores, attention.weights) & normalized.opaque:
        raise Unknown(f"{describe(inside.pop())} is part of a function with its own gradient")
    index = (B, H, I, J) if tensor(attention.logits).dim() == 4 else (H, I, J)
    elements = Elements(normalized, memory, attention.scores, _sizes(attention.logits, index))
    reader = attention.weights[-2]
    factors: tuple[tuple[float | fx.Node, int], ...] | None = None
    hidden: list[Constant] = []
    number = elements.number(attention.logits, index, reader)
    for _, leaf in leaves(number):
        if isinstance(leaf, Constant):
            hidden.append(leaf)
        elif factors is not None and leaf.factors != factors:
            raise Unknown("scores are scaled in different ways")
        else:
            factors = leaf.factors
    _refuse_leaks(hidden)
    if factors is None:
        raise Unknown("no score remains")
    return Mask(_allowed(number), _empty_row(hidden, written_out=True), _values(hidden), factors)


def _between(scores: fx.Node, weights: tuple[fx.Node, ...]) -> set[fx.Node]:
    """The nodes that scores pass on their way to the weights, both included."""
    found = {scores}
    rest = list(scores.users)
    while rest:
        node = rest.pop()
        if node not in found and (node in weights or node < weights[0]):
            found.add(node)
            rest += node.users
    return {node for node in found if node is scores or _leads_to(node, weights[0], found)}


def _leads_to(node: fx.Node, end: fx.Node, among: set[fx.Node]) -> bool:
    rest, seen = [node], set()
    while rest:
        one = rest.pop()
        if one is end:
            return True
        if one not in seen:
            seen.add(one)
            rest += [user for user in one.users if user in among]
    return False


def _mask_of_sdpa(attention: Attention, normalized: Normalized, memory: Memory) -> Mask:
    mask = attention.mask
    assert mask is not None
    full = (B, H, I, J) if len(attention.axes) == 4 else ((B if attention.axes[0] == "b" else H), I, J)
    index = views.aligned(mask, full)
    elements = Elements(normalized, memory, sizes=_sizes(mask, index))
    if value(mask).dtype.is_floating_point:
        number = elements.number(mask, index, attention.output)
        hidden = []
        for _, leaf in leaves(number):
            assert isinstance(leaf, Constant)  # there are no scores in a mask
            if leaf.value != 0:
                hidden.append(Constant(leaf.value, blurred=leaf.value > ABSORBING, added=True))
        _refuse_leaks(hidden)
        return Mask(_allowed(number), _empty_row(hidden, written_out=False), _values(hidden))
    return Mask(elements.formula(mask, index, attention.output), "zeros")


def _mask_of_flex(attention: Attention, flex: Flex, normalized: Normalized, memory: Memory) -> Mask:
    assert flex.mask is not None
    elements = Elements(normalized, memory)
    index = (B, H, I, J)
    allowed = elements.formula(flex.mask, views.aligned(flex.mask, index), attention.output)
    return Mask(allowed, "zeros", foreign=blocks.disagreement(flex, allowed, index, elements, memory))


def _sizes(node: fx.Node, index: views.Index) -> dict[str, sympy.Expr]:
    """What the running indices at which `node` is read stay below."""
    return {one.atom.name: rows for one, rows in zip(index, shape(node), strict=True) if isinstance(one.atom, Var)}


def _refuse_leaks(hidden: list[Constant]) -> None:
    for fill in hidden:
        if not fill.value <= MASKED:
            raise Unknown(f"{fill.value:g} in masked places lets something through: below {MASKED:g} nothing does")


def _values(hidden: list[Constant]) -> tuple[float, ...]:
    return tuple(sorted({fill.value for fill in hidden}))


def _empty_row(hidden: list[Constant], written_out: bool) -> str:
    """What softmax makes of a row in which every place holds one of `hidden`."""
    values = {fill.value for fill in hidden}
    if values == {float("-inf")}:
        return "nan" if written_out else "zeros"
    if len(values) == 1 and not any(fill.blurred for fill in hidden):
        added = {fill.added for fill in hidden}
        return "mean of mixed" if len(added) > 1 else "mean of added" if True in added else "mean"
    return "unknown"


def _allowed(number: Number) -> Formula:
    """Where a number is a score, or 0 in a mask."""
    match number:
        case Score():
            return True
        case Constant(held):
            return held == 0
        case Select(condition, yes, no):
            there, else_ = _allowed(yes), _allowed(no)
            if else_ is False:
                return conjunction(condition, there)
            if there is False:
                return conjunction(negation(condition), else_)
            if there == else_:
                return there
            return disjunction(conjunction(condition, there), conjunction(negation(condition), else_))


def candidates(operand: Operand, opaque: set[fx.Node], memory: Memory) -> Iterator[Operand]:
    """The operand as it is, and as what it is a view of: copies of heads (`repeat_kv`) are stripped on the way."""
    names = {"b": B, "h": H, "s": I, "d": D}
    node, index = operand.node, tuple(names[axis] for axis in operand.axes)
    yield operand
    while opname(node) != "detach" and node not in opaque and (origin := views.source(node, index)) is not None:
        if memory.changed(node):  # its source holds other values
            return
        node, index = origin
        if (found := _unrepeated(operand, node, index)) is not None:
            yield found


def _unrepeated(operand: Operand, node: fx.Node, index: views.Index) -> Operand | None:
    """`node` as the operand, whose elements are those of `node` at `index`."""
    sizes = dict(zip(operand.axes, shape(operand.node), strict=True))
    axes: list[str | None] = []
    groups = 1
    for one, rows in zip(index, shape(node), strict=True):
        atom = one.atom
        if isinstance(atom, Quotient) and not atom.remainder and atom.dividend == H and atom.divisor.is_Integer:
            groups = int(atom.divisor)
            axes.append("h")
        elif isinstance(atom, Var):
            axes.append({"i": "s"}.get(atom.name, atom.name))
        elif one.number == 0 and rows == 1:
            axes.append(None)
        else:
            return None
    # An axis of one entry is read at 0, whichever of these it is: one sample, or one head for all queries.
    missing = [axis for axis in ("b", "h") if axis in sizes and axis not in axes]
    if axes.count(None) > len(missing) or len({*axes} - {None}) != len(axes) - axes.count(None):
        return None
    if "s" not in axes or "d" not in axes:
        return None
    for axis, rows in zip(axes, shape(node), strict=True):
        times = groups if axis == "h" else 1
        if axis is not None and sympy.expand(rows * times - sizes[axis]) != 0:  # a part of it is not all of it
            return None
    if "b" in missing and sizes["b"] != 1:
        return None
    if "h" in missing and sizes["h"] != 1:
        if not sizes["h"].is_Integer:
            return None
        groups = int(sizes["h"])
    names = iter(missing)
    return Operand(node, tuple(next(names) if axis is None else axis for axis in axes), groups)
