"""Operators that only move elements: which element of the source is the element of the result at an index."""

from collections.abc import Callable, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
from shapecheck.compile_backend.expressions import Affine, Quotient
from shapecheck.compile_backend.reading import opname, shape, size, tensor
from torch import fx

Index = tuple[Affine, ...]
ZERO = Affine.of(0)


def source(node: fx.Node, index: Index) -> tuple[fx.Node, Index] | None:
    """The node and the index that `node` at `index` is an element of, or None if `node` computes its elements."""
    read = _VIEWS.get(opname(node))
    if read is None or not node.args or not isinstance(node.args[0], fx.Node):
        return None
    at = read(node, index)
    return None if at is None else (node.args[0], at)


def aligned(node: fx.Node, index: Index) -> Index:
    """`index`, of a result that `node` was broadcast to, as an index of `node`."""
    sizes = shape(node)
    return tuple(ZERO if one == 1 else at for one, at in zip(sizes, index[len(index) - len(sizes) :], strict=True))


def reshaped(old: Sequence[sympy.Expr], new: Sequence[sympy.Expr], index: Index) -> Index | None:
    """The index into a tensor of shape `old` of the element at `index` of the same tensor as shape `new`."""
    done: list[Affine] = [ZERO] * len(old)
    left = [axis for axis, one in enumerate(old) if one != 1]
    right = [axis for axis, one in enumerate(new) if one != 1]
    while left and right:
        old_axes, new_axes = [left.pop(0)], [right.pop(0)]
        while (ratio := _product(new, new_axes) / _product(old, old_axes)) != 1:
            numerator, denominator = sympy.fraction(sympy.cancel(ratio))
            if left and (denominator == 1 or numerator != 1 or not right):
                old_axes.append(left.pop(0))
            elif right:
                new_axes.append(right.pop(0))
            else:
                return None
        if not _regroup(done, [old[a] for a in old_axes], old_axes, [new[a] for a in new_axes], new_axes, index):
            return None
    return tuple(done) if not left and not right else None


def _product(sizes: Sequence[sympy.Expr], axes: list[int]) -> sympy.Expr:
    return sympy.Mul(*(sizes[axis] for axis in axes))


def _regroup(
    done: list[Affine],
    old: list[sympy.Expr],
    old_axes: list[int],
    new: list[sympy.Expr],
    new_axes: list[int],
    index: Index,
) -> bool:
    if len(old) == len(new) == 1:
        done[old_axes[0]] = index[new_axes[0]]
        return True
    if len(old) == 1:  # split: the one old index counts through the new ones
        total = ZERO
        for axis, stride in zip(new_axes, _strides(new), strict=True):
            if not stride.is_Integer and index[axis].terms:
                return False
            total += index[axis].times(int(stride)) if stride.is_Integer else Affine.of(index[axis].const * stride)
        done[old_axes[0]] = total
        return True
    if len(new) == 1:  # merged
        at = index[new_axes[0]]
        for position, (axis, stride) in enumerate(zip(old_axes, _strides(old), strict=True)):
            part = at if stride == 1 else Affine.of(Quotient(at, stride))
            if position > 0:
                part = Affine.of(Quotient(part, old[position], remainder=True))
            done[axis] = part
        return True
    return False


def _strides(sizes: list[sympy.Expr]) -> list[sympy.Expr]:
    return [sympy.Mul(*sizes[axis + 1 :]) for axis in range(len(sizes))]


def _same(node: fx.Node, index: Index) -> Index:
    return index


def _broadcast(node: fx.Node, index: Index) -> Index:
    (origin, *_) = node.args
    assert isinstance(origin, fx.Node)
    return aligned(origin, index)


def _reshape(node: fx.Node, index: Index) -> Index | None:
    (origin, *_) = node.args
    assert isinstance(origin, fx.Node)
    return reshaped(shape(origin), shape(node), index)


def _axes(node: fx.Node) -> int:
    (origin, *_) = node.args
    assert isinstance(origin, fx.Node)
    return tensor(origin).dim()


def _argument(node: fx.Node, position: int, name: str, default: Any = None) -> Any:
    return node.args[position] if position < len(node.args) else node.kwargs.get(name, default)


def _unsqueeze(node: fx.Node, index: Index) -> Index:
    axis = _argument(node, 1, "dim") % (_axes(node) + 1)
    return (*index[:axis], *index[axis + 1 :])


def _transpose(node: fx.Node, index: Index) -> Index:
    rank = _axes(node)
    at = list(index)
    a, b = _argument(node, 1, "dim0") % rank, _argument(node, 2, "dim1") % rank
    at[a], at[b] = at[b], at[a]
    return tuple(at)


def _swap_last(node: fx.Node, index: Index) -> Index | None:
    if len(index) < 2:
        return index
    if len(index) > 2 and opname(node) == "numpy_T":
        return None
    return (*index[:-2], index[-1], index[-2])


def _permute(node: fx.Node, index: Index) -> Index:
    rank = _axes(node)
    at = list(index)
    for new, old in enumerate(_argument(node, 1, "dims")):
        at[old % rank] = index[new]
    return tuple(at)


def _slice(node: fx.Node, index: Index) -> Index | None:
    (origin, *_) = node.args
    assert isinstance(origin, fx.Node)
    axis = (_argument(node, 1, "dim", 0) or 0) % len(index)
    start, step = size(_argument(node, 2, "start", 0) or 0), _argument(node, 4, "step", 1) or 1
    if not isinstance(step, int):
        return None
    if start.is_Integer and start < 0:
        start = sympy.Max(start + shape(origin)[axis], 0)
    elif not start.is_Integer and not start.is_nonnegative:
        return None
    at = list(index)
    # A start beyond the end gives an empty result, whose elements nobody reads.
    at[axis] = at[axis].times(step) + Affine.of(start)
    return tuple(at)


def _narrow(node: fx.Node, index: Index) -> Index | None:
    (origin, *_) = node.args
    assert isinstance(origin, fx.Node)
    start = _argument(node, 2, "start")
    if isinstance(start, fx.Node) and not isinstance(start.meta.get("val"), int):
        return None
    axis, at, begin = _argument(node, 1, "dim") % len(index), list(index), size(start)
    if begin.is_Integer and begin < 0:
        begin += shape(origin)[axis]
    elif not begin.is_Integer and not begin.is_nonnegative:
        return None
    at[axis] += Affine.of(begin)
    return tuple(at)


def _select(node: fx.Node, index: Index) -> Index | None:
    (origin, *_) = node.args
    assert isinstance(origin, fx.Node)
    axis, which = _argument(node, 1, "dim") % _axes(node), size(_argument(node, 2, "index"))
    if which.is_Integer and which < 0:
        which += shape(origin)[axis]
    elif not which.is_Integer and not which.is_nonnegative:
        return None
    return (*index[:axis], Affine.of(which), *index[axis:])


def _each_repeated(node: fx.Node, index: Index) -> Index | None:
    """`repeat_interleave(x, n, dim)`."""
    times, axis = _argument(node, 1, "repeats"), _argument(node, 2, "dim")
    if not isinstance(times, int) or axis is None or times < 1:
        return None
    at = list(index)
    at[axis % len(index)] = Affine.of(Quotient(at[axis % len(index)], sympy.Integer(times)))
    return tuple(at)


def _repeat(node: fx.Node, index: Index) -> Index:
    """`x.repeat(sizes)`."""
    (origin, *_) = node.args
    assert isinstance(origin, fx.Node)
    old, times = shape(origin), [size(one) for one in _argument(node, 1, "repeats")]
    return tuple(
        ZERO if rows == 1 else at if often == 1 else Affine.of(Quotient(at, rows, remainder=True))
        for rows, often, at in zip(old, times[len(times) - len(old) :], index[len(index) - len(old) :], strict=True)
    )


def _convert(node: fx.Node, index: Index) -> Index | None:
    """Conversions keep the index; what they do to the value is for the caller to say."""
    (origin, *_) = node.args
    assert isinstance(origin, fx.Node)
    return index if tensor(origin).dtype == tensor(node).dtype else None


_VIEWS: dict[str, Callable[[fx.Node, Index], Index | None]] = {
    **dict.fromkeys(("alias", "clone", "contiguous", "lift_fresh", "lift_fresh_copy"), _same),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), _broadcast),
    **dict.fromkeys(
        (
            "view",
            "reshape",
            "unsafe_view",
            "view_as",
            "reshape_as",
            "flatten",
            "unflatten",
            "squeeze",
            "ravel",
            "reshape_alias",
        ),
        _reshape,
    ),
    "detach": _same,
    "unsqueeze": _unsqueeze,
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), _transpose),
    **dict.fromkeys(("t", "mT", "numpy_T"), _swap_last),
    "permute": _permute,
    "slice": _slice,
    "narrow": _narrow,
    "select": _select,
    "repeat": _repeat,
    "repeat_interleave": _each_repeated,
    "to": _convert,
    "to_copy": _convert,
    "type_as": _convert,
}
