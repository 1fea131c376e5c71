"""Elements of tensors, evaluated backwards through the normalized graph.

Whatever is not modelled ends in a `Read` of the node itself, which is always right: how the values of a tag came about
matters to nobody who only compares them. What has no such reading (a number that is added to a mask) is `Unknown`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from shapecheck.compile_backend import views
from shapecheck.compile_backend.expressions import (
    Absolute,
    Affine,
    Constant,
    Formula,
    Number,
    Read,
    Score,
    Select,
    Truth,
    Var,
    compare,
    conjunction,
    disjunction,
    negation,
    within,
)
from shapecheck.compile_backend.normalize import Normalized
from shapecheck.compile_backend.reading import Memory, opname, shape, size, tensor, value
from shapecheck.compile_backend.views import ZERO, Index
from shapecheck.compile_backend.vmap import ELEMENT, SPREAD
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensor

_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
_FOLLOWED = (torch.int64, torch.int32)
"""Integers in which sums of indices and positions do not wrap around."""
_EXACT = 2**24
"""Up to here float32 holds every integer."""


class Unknown(Exception):
    """An element that is not understood; the message says what stands in the way."""


class Elements:
    """Evaluates elements of the nodes of one normalized graph.

    Args:
        normalized: the graph.
        scores: the node of the product of queries and keys, whose elements are scores; None if there are none.
        sizes: what the running indices stay below, as far as that is known.
    """

    def __init__(
        self,
        normalized: Normalized,
        memory: Memory,
        scores: fx.Node | None = None,
        sizes: Mapping[str, sympy.Expr] | None = None,
    ) -> None:
        self._normalized = normalized
        self._memory = memory
        self._scores = scores
        self._sizes = sizes or {}
        self._elements: dict[int, Affine] = {}  # for each map that is entered, the element at which

    def formula(self, node: fx.Node, index: Index, reader: fx.Node) -> Formula:
        """The truth value of `node` at `index`, as the operator `reader` sees it."""
        node, index = self._trace(node, index, reader)
        name = opname(node)
        if name in _COMPARISONS and node not in self._normalized.opaque:
            return self._comparison(node, index)
        formula: Formula | None = self._rule(_FORMULAS, node, index)
        if formula is not None:
            return formula
        if tensor(node).dtype is torch.bool:
            return Truth(self._leaf(node, index))
        if name in _NUMBERS and name != "index":
            # Numbers as truth values: `mask.to(bool)` of an integer mask, `(1 - mask).bool()`.
            try:
                return _as_formula(self.number(node, index, reader))
            except Unknown:
                pass
        if tensor(node).dtype.is_floating_point:
            return Truth(self._leaf(node, index))
        return compare("ne", self.integer(node, index, reader), ZERO)

    def integer(self, node: fx.Node, index: Index, reader: fx.Node) -> Affine:
        """The integer in `node` at `index`, as `reader` sees it; of floats, a `Read`."""
        node, index = self._trace(node, index, reader)
        if tensor(node).dtype in _FOLLOWED:
            known: Affine | None = self._rule(_INTEGERS, node, index)
            if known is not None:
                return known
        return Affine.of(self._leaf(node, index))

    def number(self, node: fx.Node, index: Index, reader: fx.Node) -> Number:
        """The number in `node` at `index`, as `reader` sees it."""
        node, index = self._trace(node, index, reader)
        if node is self._scores:
            _refuse_moved(node, index)
            return self._score(node, index)
        if tensor(node).dtype is torch.bool:
            return Select(self.formula(node, index, reader), Constant(1.0), Constant(0.0))
        known: Number | None = self._rule(_NUMBERS, node, index)
        if known is None and node.op == "get_attr":
            known = _literal(node)
        if known is None:
            raise Unknown(f"{_call(node)} is a number that is no mask")
        return known

    def _score(self, node: fx.Node, index: Index) -> Number:
        """The score that a product is; a `baddbmm` adds a tensor to it."""
        if opname(node) != "baddbmm" or node.kwargs.get("beta", 1) == 0:
            return Score(node)
        return _added(node, self.operand_number(node, node.args[0], index), Score(node), 1)

    def _trace(self, node: fx.Node, index: Index, reader: fx.Node) -> tuple[fx.Node, Index]:
        """The node that computes the element: views and copies are passed, unless written to before they are read."""
        while True:
            if self._memory.changed(node, self._memory.position(reader)):
                raise Unknown(f"{_call(node)} is changed in place before it is used")
            if node in self._normalized.opaque:
                return node, index
            if node.target is SPREAD:
                result, axis, _, region = _marker(node)
                self._elements[region] = index[axis]
                return self._trace(result, (*index[:axis], *index[axis + 1 :]), node)
            if node.target is ELEMENT:
                source, axis, region = _marker(node)
                if region not in self._elements:
                    raise Unknown(f"{_call(source)} is mapped by a vmap around the attention")
                node, index = source, (*index[:axis], self._elements[region], *index[axis:])
            elif (origin := views.source(node, index)) is not None:
                if self._memory.storage(origin[0]) != self._memory.storage(node):
                    reader = node  # a copy has the values of its time
                node, index = origin[0], tuple(within(one, self._sizes) for one in origin[1])
            else:
                return node, index

    def _rule(self, rules: Mapping[str, Callable[..., Any]], node: fx.Node, index: Index) -> Any:
        """What the rule for the operator of `node` makes of it, or None without one."""
        rule = None if node in self._normalized.opaque else rules.get(opname(node))
        return None if rule is None else rule(self, node, index)

    def _leaf(self, node: fx.Node, index: Index) -> Read:
        if self._memory.changed(node):
            raise Unknown(f"{_call(node)} is changed in place")
        if node in self._normalized.varying:
            at = None if node in self._normalized.opaque or opname(node) != "index" else _looked_up(self, node, index)
            if at is None:
                raise Unknown(f"{_call(node)} is computed for each query and key in a way that is not understood")
            return self._leaf(*at)
        return Read(node, tuple(ZERO if one == 1 else at for one, at in zip(shape(node), index, strict=True)))

    def operand_formula(self, node: fx.Node, operand: Any, index: Index) -> Formula:
        """The truth value of an operand of the elementwise `node`."""
        if isinstance(operand, fx.Node):
            return self.formula(operand, views.aligned(operand, index), node)
        return bool(operand)

    def operand_integer(self, node: fx.Node, operand: Any, index: Index) -> Affine | None:
        """The integer that an operand of the elementwise `node` is; None if it is none."""
        if isinstance(operand, fx.Node):
            if isinstance(value(operand), Tensor):
                if tensor(operand).dtype is torch.bool:
                    return Affine.of(self._leaf(*self._trace(operand, views.aligned(operand, index), node)))
                return self.integer(operand, views.aligned(operand, index), node)
            return Affine.of(size(operand)) if isinstance(value(operand), int | torch.SymInt) else None
        if isinstance(operand, bool) or not isinstance(operand, int | torch.SymInt):
            integral = isinstance(operand, float) and operand.is_integer() and operand not in self._normalized.floats
            if integral and abs(operand) >= _EXACT:  # integers that are compared with it are rounded
                return None
            return Affine.of(int(operand)) if integral else None
        return Affine.of(size(operand))

    def operand_number(self, node: fx.Node, operand: Any, index: Index) -> Number:
        """The number that an operand of the elementwise `node` is."""
        if isinstance(operand, fx.Node):
            if isinstance(value(operand), Tensor):
                return self.number(operand, views.aligned(operand, index), node)
            raise Unknown(f"{_call(operand)} varies from call to call")
        if isinstance(operand, bool | int | float):
            if operand in self._normalized.floats:
                raise Unknown("a float of the program varies from call to call")
            return Constant(float(operand))
        raise Unknown(f"{operand!r} is no number that is known")

    def factor(self, operand: Any, node: fx.Node, index: Index) -> float | fx.Node:
        """What scores are multiplied with: a number, or the Dynamo node of a float that varies."""
        if isinstance(operand, float) and operand in self._normalized.floats:
            return self._normalized.floats[operand].node
        number = self.operand_number(node, operand, index)
        if not isinstance(number, Constant):
            raise Unknown(f"scores are multiplied with {operand}, which varies")
        return number.value

    def _comparison(self, node: fx.Node, index: Index) -> Formula:
        left, right = node.args[:2]
        sides = []
        for operand, other in ((left, right), (right, left)):
            if isinstance(operand, fx.Node) and isinstance(value(operand), Tensor):
                _refuse_nan(operand)
                if tensor(operand).dtype is torch.bool and not isinstance(other, fx.Node):
                    return self._truth_against(node, operand, other, index)
            side = self.operand_integer(node, operand, index)
            if side is None or _wraps(operand, other):
                return Truth(self._leaf(node, index))
            sides.append(side)
        if opname(node) not in ("eq", "ne") and any(map(_float_valued, (left, right))):
            # Between floats `a < b` is not `a + 1 <= b`.
            return Truth(self._leaf(node, index))
        return compare(opname(node), *sides)

    def _truth_against(self, node: fx.Node, operand: fx.Node, other: Any, index: Index) -> Formula:
        formula = self.operand_formula(node, operand, index)
        if opname(node) in ("eq", "ne") and other in (0, 1):
            return formula if (opname(node) == "eq") is bool(other) else negation(formula)
        return Truth(self._leaf(node, index))


def _wraps(operand: Any, other: Any) -> bool:
    """Whether `operand`, a number or a tensor without axes, is another number in the integers it is compared in."""
    held = value(other) if isinstance(other, fx.Node) else None
    if not isinstance(held, Tensor) or held.dtype.is_floating_point or held.dtype is torch.bool:
        return False
    number = value(operand) if isinstance(operand, fx.Node) else operand
    if isinstance(number, Tensor):
        wider = number.dtype.itemsize > held.dtype.itemsize and not number.dtype.is_floating_point
        return wider and number.dim() == 0 < held.dim()
    if isinstance(number, int):
        return not torch.iinfo(held.dtype).min <= number <= torch.iinfo(held.dtype).max
    return isinstance(number, torch.SymInt) and held.dtype not in _FOLLOWED


def _marker(node: fx.Node) -> Any:
    """The arguments of a marker of `vmap`."""
    return node.args


def _as_formula(number: Number) -> Formula:
    match number:
        case Constant(held):
            return held != 0
        case Select(condition, yes, no):
            return disjunction(
                conjunction(condition, _as_formula(yes)), conjunction(negation(condition), _as_formula(no))
            )
        case Score():
            raise Unknown("scores are used as a mask")


def _refuse_moved(scores: fx.Node, index: Index) -> None:
    """Raise `Unknown` unless each score stands where its query and key say."""
    sizes, names = shape(scores), [one.atom.name if isinstance(one.atom, Var) else "" for one in index]
    kept = [name for size, name in zip(sizes, names, strict=True) if size != 1]
    wanted = [name for name in "bh" if name in kept]
    wanted += [name for size, name in zip(sizes[-2:], "ij", strict=True) if size != 1]
    if kept != wanted:
        raise Unknown("the scores are moved before the softmax")


def _float_valued(operand: Any) -> bool:
    if isinstance(operand, fx.Node):
        held = value(operand)
        return isinstance(held, Tensor) and held.dtype.is_floating_point
    return isinstance(operand, float) and not operand.is_integer()


def _refuse_nan(node: fx.Node) -> None:
    """Raise `Unknown` for floats that may be NaN, which equals not even itself."""
    if not tensor(node).dtype.is_floating_point:
        return
    origin = node
    while origin.args and isinstance(origin.args[0], fx.Node):
        if opname(origin) in ("to", "to_copy", "type_as") and not tensor(origin.args[0]).dtype.is_floating_point:
            return
        if opname(origin) not in _SAME_VALUES:
            break
        origin = origin.args[0]
    raise Unknown(f"{_call(node)} holds floats, which may be NaN")


_SAME_VALUES = {
    *("view", "reshape", "unsqueeze", "squeeze", "expand", "permute", "transpose", "slice", "select", "index"),
    *("contiguous", "clone", "detach", "alias", "to", "to_copy", "flatten"),
}


def _call(node: fx.Node) -> str:
    if node.op == "placeholder":
        return f"input {node.name}"
    return f"{opname(node) or node.target} ({node.name})"


def describe(node: fx.Node) -> str:
    """A node in words, as reports show it."""
    return _call(node)


# Truth values -------------------------------------------------------------------------------------------------------


def _logical(join: Callable[..., Formula]) -> Callable[[Elements, fx.Node, Index], Formula | None]:
    def rule(elements: Elements, node: fx.Node, index: Index) -> Formula | None:
        if tensor(node).dtype is not torch.bool:
            return None
        return join(*(elements.operand_formula(node, operand, index) for operand in node.args[:2]))

    return rule


def _not(elements: Elements, node: fx.Node, index: Index) -> Formula | None:
    if tensor(node).dtype is not torch.bool:
        return None
    return negation(elements.operand_formula(node, node.args[0], index))


def _differ(elements: Elements, node: fx.Node, index: Index) -> Formula | None:
    if tensor(node).dtype is not torch.bool:
        return None
    a, b = (elements.operand_formula(node, operand, index) for operand in node.args[:2])
    return disjunction(conjunction(a, negation(b)), conjunction(negation(a), b))


def _to_bool(elements: Elements, node: fx.Node, index: Index) -> Formula | None:
    (origin, *_) = node.args
    if tensor(node).dtype is not torch.bool or not isinstance(origin, fx.Node):
        return None
    if tensor(origin).dtype.is_floating_point:
        try:
            return _as_formula(elements.number(origin, index, node))
        except Unknown:
            return None
    return elements.formula(origin, index, node)


def _choose(elements: Elements, node: fx.Node, index: Index) -> Formula | None:
    if tensor(node).dtype is not torch.bool:
        return None
    condition, yes, no = (elements.operand_formula(node, operand, index) for operand in node.args[:3])
    return disjunction(conjunction(condition, yes), conjunction(negation(condition), no))


def _fill_truth(elements: Elements, node: fx.Node, index: Index) -> Formula | None:
    if tensor(node).dtype is not torch.bool:
        return None
    origin, where, filled = node.args[:3]
    held, condition, new = (elements.operand_formula(node, one, index) for one in (origin, where, filled))
    return disjunction(conjunction(condition, new), conjunction(negation(condition), held))


def _triangle(node: fx.Node, index: Index) -> Formula | None:
    """Where tril or triu keep their argument."""
    diagonal = node.args[1] if len(node.args) > 1 else node.kwargs.get("diagonal", 0)
    if isinstance(diagonal, fx.Node) and not isinstance(value(diagonal), int | torch.SymInt):
        return None
    offset = index[-1] - index[-2]  # column minus row
    return compare("le" if opname(node) == "tril" else "ge", offset, Affine.of(size(diagonal)))


def _triangle_truth(elements: Elements, node: fx.Node, index: Index) -> Formula | None:
    kept = _triangle(node, index)
    if kept is None or tensor(node).dtype is not torch.bool:
        return None
    return conjunction(kept, elements.operand_formula(node, node.args[0], index))


def _constant_truth(elements: Elements, node: fx.Node, index: Index) -> Formula | None:
    if tensor(node).dtype is not torch.bool:
        return None
    filled = _filling(elements, node)
    return None if filled is None else filled != 0


def _indexed_truth(elements: Elements, node: fx.Node, index: Index) -> Formula | None:
    at = _gathered(elements, node, index)
    if at is None or tensor(node).dtype is not torch.bool:
        return None
    return elements.formula(*at, node)


_FORMULAS: dict[str, Callable[[Elements, fx.Node, Index], Formula | None]] = {
    **dict.fromkeys(("and", "bitwise_and", "logical_and"), _logical(conjunction)),
    **dict.fromkeys(("or", "bitwise_or", "logical_or"), _logical(disjunction)),
    **dict.fromkeys(("xor", "bitwise_xor", "logical_xor"), _differ),
    **dict.fromkeys(("bitwise_not", "logical_not"), _not),
    **dict.fromkeys(("iand",), _logical(conjunction)),
    **dict.fromkeys(("ior",), _logical(disjunction)),
    "mul": _logical(conjunction),
    **dict.fromkeys(("to", "to_copy", "type_as"), _to_bool),
    "where": _choose,
    "masked_fill": _fill_truth,
    **dict.fromkeys(("tril", "triu"), _triangle_truth),
    **dict.fromkeys(
        ("ones", "zeros", "full", "new_ones", "new_zeros", "new_full", "ones_like", "zeros_like", "full_like"),
        _constant_truth,
    ),
    "scalar_tensor": _constant_truth,
    "index": _indexed_truth,
}


# Integers -----------------------------------------------------------------------------------------------------------


def _arange(elements: Elements, node: fx.Node, index: Index) -> Affine | None:
    arguments = list(node.args)
    start, step = (0, 1) if len(arguments) == 1 else (arguments[0], arguments[2] if len(arguments) > 2 else 1)
    step = node.kwargs.get("step", step)
    start = node.kwargs.get("start", start)
    if not isinstance(step, int) or not isinstance(start, int | fx.Node | torch.SymInt):
        return None
    if isinstance(start, fx.Node) and not isinstance(value(start), int | torch.SymInt):
        return None
    return index[0].times(step) + Affine.of(size(start))


def _sum(sign: int) -> Callable[[Elements, fx.Node, Index], Affine | None]:
    def rule(elements: Elements, node: fx.Node, index: Index) -> Affine | None:
        if node.kwargs.get("alpha", 1) != 1 or len(node.args) > 2:
            return None
        left, right = (elements.operand_integer(node, operand, index) for operand in node.args)
        if left is None or right is None or not _widths_agree(node):
            return None
        return left - right if sign < 0 else left + right

    return rule


def _reversed_difference(elements: Elements, node: fx.Node, index: Index) -> Affine | None:
    if node.kwargs.get("alpha", 1) != 1 or len(node.args) > 2:
        return None
    left, right = (elements.operand_integer(node, operand, index) for operand in node.args)
    return None if left is None or right is None or not _widths_agree(node) else right - left


def _widths_agree(node: fx.Node) -> bool:
    """Whether no operand is of a narrower type, in which its own sum could have wrapped, nor a truth value."""
    return all(
        tensor(operand).dtype in _FOLLOWED
        for operand in node.args
        if isinstance(operand, fx.Node) and isinstance(value(operand), Tensor)
    )


def _product(elements: Elements, node: fx.Node, index: Index) -> Affine | None:
    left, right = (elements.operand_integer(node, operand, index) for operand in node.args[:2])
    if left is None or right is None:
        return None
    for number, other in ((left.number, right), (right.number, left)):
        # Multiples of tags are left alone: a large factor could wrap around.
        if number is not None and not any(other.reads()):
            return other.times(number)
    return None


def _opposite(elements: Elements, node: fx.Node, index: Index) -> Affine | None:
    inner = elements.operand_integer(node, node.args[0], index)
    return None if inner is None else inner.times(-1)


def _absolute(elements: Elements, node: fx.Node, index: Index) -> Affine | None:
    inner = elements.operand_integer(node, node.args[0], index)
    return None if inner is None else Affine.of(Absolute(inner))


def _widen(elements: Elements, node: fx.Node, index: Index) -> Affine | None:
    (origin, *_) = node.args
    if not isinstance(origin, fx.Node) or tensor(origin).dtype not in _FOLLOWED:
        return None
    known = elements.integer(origin, index, node)
    narrower = tensor(node).dtype.itemsize < tensor(origin).dtype.itemsize
    return None if narrower and any(known.reads()) else known  # what is read may not fit


def _indexed(elements: Elements, node: fx.Node, index: Index) -> Affine | None:
    at = _gathered(elements, node, index)
    return None if at is None else elements.integer(*at, node)


def _gathered(elements: Elements, node: fx.Node, index: Index) -> tuple[fx.Node, Index] | None:
    """What `x[tensors]` reads, if every index tensor holds indices that are understood and not negative."""
    return _read_at(elements, node, index, lambda which: not any(which.reads()) and _never_negative(which))


def _looked_up(elements: Elements, node: fx.Node, index: Index) -> tuple[fx.Node, Index] | None:
    """What `x[tensors]` reads, where an index may be read from a tensor too: then it may be negative."""
    return _read_at(elements, node, index, lambda which: isinstance(which.atom, Read | Var) or which.number == 0)


def _read_at(
    elements: Elements, node: fx.Node, index: Index, admitted: Callable[[Affine], bool]
) -> tuple[fx.Node, Index] | None:
    origin, tensors = node.args[:2]
    if not isinstance(origin, fx.Node) or not isinstance(tensors, list | tuple):
        return None
    given = [axis for axis, one in enumerate(tensors) if one is not None]
    if not given or given != list(range(given[0], given[-1] + 1)):
        return None  # with None in between the indexed axes move to the front
    rank = max(tensor(one).dim() for one in tensors if isinstance(one, fx.Node))
    before, joint, after = index[: given[0]], index[given[0] : given[0] + rank], index[given[0] + rank :]
    at: list[Affine] = list(before)
    for axis in given:
        one = tensors[axis]
        if not isinstance(one, fx.Node) or tensor(one).dtype not in _FOLLOWED:
            return None
        which = elements.integer(one, views.aligned(one, joint), node)
        if not admitted(which):
            return None
        at.append(which)
    return origin, (*at, *after)


def _never_negative(which: Affine) -> bool:
    return all(c > 0 for _, c in which.terms) and (which.const.is_nonnegative is True or which.const == 0)


def _filled_integer(elements: Elements, node: fx.Node, index: Index) -> Affine | None:
    filled = _filling(elements, node)
    return Affine.of(int(filled)) if filled is not None and float(filled).is_integer() else None


_INTEGERS: dict[str, Callable[[Elements, fx.Node, Index], Affine | None]] = {
    "arange": _arange,
    "add": _sum(1),
    "sub": _sum(-1),
    "rsub": _reversed_difference,
    "mul": _product,
    "neg": _opposite,
    "abs": _absolute,
    **dict.fromkeys(("to", "to_copy", "type_as"), _widen),
    "index": _indexed,
    **dict.fromkeys(
        ("ones", "zeros", "full", "new_ones", "new_zeros", "new_full", "ones_like", "zeros_like", "full_like"),
        _filled_integer,
    ),
    "scalar_tensor": _filled_integer,
}


# Numbers ------------------------------------------------------------------------------------------------------------


def _filling(elements: Elements, node: fx.Node) -> float | None:
    """The number that all elements of a constant tensor have."""
    name = opname(node)
    if name in ("ones", "new_ones", "ones_like"):
        return 1.0
    if name in ("zeros", "new_zeros", "zeros_like"):
        return 0.0
    held = node.args[0 if name == "scalar_tensor" else -1] if node.args else None
    if name != "scalar_tensor":
        held = node.kwargs.get("fill_value", node.args[{"full": 1, "new_full": 2, "full_like": 1}[name]])
    if not isinstance(held, bool | int | float) or held in elements._normalized.floats:
        return None
    return float(held)


def _constant(elements: Elements, node: fx.Node, index: Index) -> Number | None:
    filled = _filling(elements, node)
    return None if filled is None else Constant(_rounded(filled, node))


def _literal(node: fx.Node) -> Number | None:
    """The number in a tensor that the program makes of a number: `torch.tensor(0.0)`."""
    if any(opname(user) != "lift_fresh_copy" for user in node.users) or node.graph.owning_module is None:
        return None
    held = getattr(node.graph.owning_module, str(node.target), None)
    held = getattr(held, "constant", held)
    if not isinstance(held, Tensor) or isinstance(held, FakeTensor) or held.numel() != 1:
        return None
    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        return Constant(float(held.item()))


def _rounded(number: float, node: fx.Node) -> float:
    dtype = tensor(node).dtype
    if not dtype.is_floating_point:
        return number
    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        return float(torch.tensor(number, dtype=torch.float64).to(dtype))


def _apply(node: fx.Node, number: Number, function: Callable[[float], float]) -> Number:
    """`number` with `function` applied to its constants; scores may stand only where `function` leaves them alone."""
    match number:
        case Constant(held):
            return replace(number, value=_rounded(function(held), node))
        case Select(condition, yes, no):
            return Select(condition, _apply(node, yes, function), _apply(node, no, function))
        case Score():
            raise Unknown(f"{_call(node)} changes scores in a way that is not known")


def _added(node: fx.Node, left: Number, right: Number, sign: int) -> Number:
    if isinstance(left, Select):
        return Select(left.condition, _added(node, left.yes, right, sign), _added(node, left.no, right, sign))
    if isinstance(right, Select):
        return Select(right.condition, _added(node, left, right.yes, sign), _added(node, left, right.no, sign))
    if isinstance(left, Constant) and isinstance(right, Constant):
        return Constant(
            _rounded(left.value + sign * right.value, node), left.blurred or right.blurred, left.added or right.added
        )
    score, other = (left, right) if isinstance(left, Score) else (right, left)
    if isinstance(other, Constant) and (score is left or sign > 0):
        if other.value == 0:
            return score
        if other.value <= MASKED:
            return Constant(other.value, blurred=other.value > ABSORBING, added=True)
    raise Unknown(f"{_call(node)} adds something to the scores that is no mask")


def _plus(sign: int) -> Callable[[Elements, fx.Node, Index], Number | None]:
    def rule(elements: Elements, node: fx.Node, index: Index) -> Number | None:
        if node.kwargs.get("alpha", 1) != 1 or len(node.args) > 2:
            return None
        left, right = (elements.operand_number(node, operand, index) for operand in node.args)
        return _added(node, left, right, sign)

    return rule


def _minus_reversed(elements: Elements, node: fx.Node, index: Index) -> Number | None:
    if node.kwargs.get("alpha", 1) != 1 or len(node.args) > 2:
        return None
    left, right = (elements.operand_number(node, operand, index) for operand in node.args)
    return _added(node, right, left, -1)


def _scaled(number: Number, factor: float | fx.Node, power: int, node: fx.Node) -> Number:
    match number:
        case Score(product, factors):
            return Score(product, (*factors, (factor, power)))
        case Select(condition, yes, no):
            return Select(condition, _scaled(yes, factor, power, node), _scaled(no, factor, power, node))
        case Constant(held):
            if held == 0 and power > 0 and isinstance(factor, float) and math.isfinite(factor):
                return number
            if isinstance(factor, fx.Node):
                if held == -math.inf and _positive(factor.meta["example_value"].node.expr):
                    return number
                raise Unknown(f"{_call(node)} scales a mask with a float that varies")
            if power < 0 and factor == 0:
                raise Unknown(f"{_call(node)} divides by zero")
            return replace(number, value=_rounded(held * factor if power > 0 else held / factor, node))


def _positive(expression: sympy.Expr) -> bool:
    """Whether a float of the program, such as the root of a size, is known to be positive."""
    while expression.func.__name__.endswith(("sqrt", "ToFloat")):
        (expression,) = expression.args
    return bool(expression.is_positive)


def _times(elements: Elements, node: fx.Node, index: Index) -> Number | None:
    left, right = node.args[:2]
    if not isinstance(left, fx.Node) or not isinstance(value(left), Tensor):
        left, right = right, left
    assert isinstance(left, fx.Node)
    if isinstance(right, fx.Node) and isinstance(value(right), Tensor):
        a, b = (elements.operand_number(node, operand, index) for operand in (left, right))
        for number, other in ((a, b), (b, a)):
            if isinstance(other, Constant):
                return _scaled(number, other.value, 1, node)
            if isinstance(other, Select) and _plain(other):
                return Select(
                    other.condition, _multiplied(node, number, other.yes), _multiplied(node, number, other.no)
                )
        return None
    number = elements.operand_number(node, left, index)
    return _scaled(number, elements.factor(right, node, index), 1, node)


def _plain(number: Number) -> bool:
    """Whether a number never is a score."""
    return all(not isinstance(leaf, Score) for leaf in (number.yes, number.no)) if isinstance(number, Select) else True


def _multiplied(node: fx.Node, number: Number, factor: Number) -> Number:
    if not isinstance(factor, Constant):
        raise Unknown(f"{_call(node)} multiplies masks in a way that is not known")
    if factor.value == 1:
        return number
    return _scaled(number, factor.value, 1, node) if not isinstance(number, Score) else _no_product(node)


def _no_product(node: fx.Node) -> Number:
    raise Unknown(f"{_call(node)} multiplies scores with a mask")


def _divided(elements: Elements, node: fx.Node, index: Index) -> Number | None:
    if node.kwargs.get("rounding_mode") is not None or not isinstance(node.args[0], fx.Node):
        return None
    number = elements.operand_number(node, node.args[0], index)
    return _scaled(number, elements.factor(node.args[1], node, index), -1, node)


def _negative(elements: Elements, node: fx.Node, index: Index) -> Number | None:
    return _scaled(elements.operand_number(node, node.args[0], index), -1.0, 1, node)


def _cast(elements: Elements, node: fx.Node, index: Index) -> Number | None:
    (origin, *_) = node.args
    assert isinstance(origin, fx.Node)
    number = elements.number(origin, index, node)
    return _recast(node, number)


def _recast(node: fx.Node, number: Number) -> Number:
    match number:
        case Select(condition, yes, no):
            return Select(condition, _recast(node, yes), _recast(node, no))
        case Constant(held):
            return replace(number, value=_rounded(held, node))
        case Score():
            if not tensor(node).dtype.is_floating_point:
                raise Unknown(f"{_call(node)} rounds scores to integers")
            return number


def _chosen(elements: Elements, node: fx.Node, index: Index) -> Number | None:
    if len(node.args) < 3:
        return None
    condition, yes, no = node.args[:3]
    return Select(
        elements.operand_formula(node, condition, index),
        elements.operand_number(node, yes, index),
        elements.operand_number(node, no, index),
    )


def _filled(elements: Elements, node: fx.Node, index: Index) -> Number | None:
    origin, where, filled = node.args[:3]
    condition = elements.operand_formula(node, where, index)
    new, held = (elements.operand_number(node, one, index) for one in (filled, origin))
    return Select(condition, _recast(node, new), held)


def _triangle_number(elements: Elements, node: fx.Node, index: Index) -> Number | None:
    kept = _triangle(node, index)
    if kept is None:
        return None
    return Select(kept, elements.operand_number(node, node.args[0], index), Constant(0.0))


def _indexed_number(elements: Elements, node: fx.Node, index: Index) -> Number | None:
    at = _gathered(elements, node, index)
    return None if at is None else elements.number(*at, node)


MASKED = -1e3
"""A bias of this or less leaves nothing of a score: exp(-1e3) is 0 in every dtype. Of less, something leaks."""

ABSORBING = -1e30
"""A bias of this or less makes any score exactly equal to itself."""

_NUMBERS: dict[str, Callable[[Elements, fx.Node, Index], Number | None]] = {
    "add": _plus(1),
    "sub": _plus(-1),
    "rsub": _minus_reversed,
    "mul": _times,
    "div": _divided,
    "neg": _negative,
    **dict.fromkeys(("to", "to_copy", "type_as"), _cast),
    "where": _chosen,
    "masked_fill": _filled,
    **dict.fromkeys(("tril", "triu"), _triangle_number),
    **dict.fromkeys(
        ("ones", "zeros", "full", "new_ones", "new_zeros", "new_full", "ones_like", "zeros_like", "full_like"),
        _constant,
    ),
    "scalar_tensor": _constant,
    "index": _indexed_number,
}
