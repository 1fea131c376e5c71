"""What is known of the values of tags by the way they were made."""

from typing import Any, NamedTuple

import sympy  # type: ignore[import-untyped]
import torch
from shapecheck.compile_backend.reading import Memory, opname, shape, tensor, value
from torch import Tensor, fx

_SMALL = 64
"""Values up to this may be summed over any row without wrapping around in 32 bits."""

_KEEP_VALUES = {
    *("view", "reshape", "unsqueeze", "squeeze", "expand", "clone", "contiguous", "detach", "alias", "flatten"),
    *("slice", "select", "narrow", "lift_fresh_copy", "expand_as", "view_as", "unflatten", "broadcast_to"),
}


class Sorted(NamedTuple):
    """Values that never decrease along the last axis.

    Attributes:
        why: the fact, in words.
        origin: the input that they were made from, in words; `""` if unknown.
        limit: all values are at least 0 and less than this; None if no bound is known.
    """

    why: str
    origin: str
    limit: sympy.Expr | None = None


def sortedness(node: fx.Node, memory: Memory) -> Sorted | None:
    """Why the values of `node` never decrease along its last axis, or None if that is not known."""
    if memory.changed(node):
        return None
    rule = _SORTED.get(opname(node))
    return None if rule is None else rule(node, memory)


def _argument(node: fx.Node, position: int, name: str, default: Any = None) -> Any:
    return node.args[position] if position < len(node.args) else node.kwargs.get(name, default)


def _count(node: fx.Node, memory: Memory) -> Sorted | None:
    """Both searchsorted and bucketize, of values that do not decrease."""
    bucketize = opname(node) == "bucketize"
    boundaries, values = node.args[1::-1] if bucketize else node.args[:2]
    if not isinstance(values, fx.Node) or not isinstance(boundaries, fx.Node) or not isinstance(value(values), Tensor):
        return None
    if _argument(node, 99, "sorter") is not None or tensor(boundaries).dim() != 1:
        return None
    inner = sortedness(values, memory)
    if inner is None:
        return None
    # A binary search for a larger value never ends further left, whatever the boundaries hold.
    limit = shape(boundaries)[0] + 1
    return Sorted(f"{opname(node)} of values that increase", origin(boundaries), limit)


def _arange(node: fx.Node, memory: Memory) -> Sorted | None:
    step = node.kwargs.get("step", node.args[2] if len(node.args) > 2 else 1)
    if not isinstance(step, int) or step <= 0 or tensor(node).dtype.is_floating_point:
        return None
    starts_at_zero = len(node.args) == 1 or node.args[0] == 0
    return Sorted("arange", "", shape(node)[0] if starts_at_zero and step == 1 else None)


def _repeated(node: fx.Node, memory: Memory) -> Sorted | None:
    origin_, repeats = node.args[0], _argument(node, 1, "repeats")
    if not isinstance(origin_, fx.Node) or not isinstance(repeats, fx.Node) or tensor(origin_).dim() != 1:
        return None
    if not isinstance(value(repeats), Tensor):
        return None
    inner = sortedness(origin_, memory)
    if inner is None:
        return None
    return Sorted("repeat_interleave of values that increase", origin(repeats), inner.limit)


def _accumulated(node: fx.Node, memory: Memory) -> Sorted | None:
    inner, axis = node.args[0], _argument(node, 1, "dim")
    if not isinstance(inner, fx.Node) or axis % max(tensor(node).dim(), 1) != tensor(node).dim() - 1:
        return None
    # In narrow types the sum wraps around.
    if tensor(node).dtype not in (torch.int64, torch.int32) or upper_bound(inner, memory) is None:
        return None
    return Sorted("cumsum of what is never negative", origin(inner))


def _kept(node: fx.Node, memory: Memory) -> Sorted | None:
    inner = node.args[0]
    if not isinstance(inner, fx.Node) or not isinstance(value(inner), Tensor):
        return None
    name = opname(node)
    if name == "slice" and (_argument(node, 4, "step", 1) or 1) != 1:
        return None
    # Only what leaves the last axis the last axis.
    moves = name in ("unsqueeze", "squeeze", "view", "reshape", "flatten", "expand", "select")
    if moves and (tensor(inner).dim() == 0 or shape(inner)[-1] != shape(node)[-1]):
        return None
    return sortedness(inner, memory)


def _cast(node: fx.Node, memory: Memory) -> Sorted | None:
    inner = node.args[0]
    assert isinstance(inner, fx.Node)
    wide = (torch.int64, torch.int32, torch.float32, torch.float64)
    if tensor(node).dtype not in wide or tensor(inner).dtype.is_floating_point:
        return None
    known = sortedness(inner, memory)
    # Rounding to floats keeps the order, and may make neighbours equal.
    return known if known is None or not tensor(node).dtype.is_floating_point else known._replace(limit=None)


def _shifted(node: fx.Node, memory: Memory) -> Sorted | None:
    inner, number = node.args[:2]
    if not isinstance(inner, fx.Node) or not isinstance(number, int) or node.kwargs.get("alpha", 1) != 1:
        return None
    known = sortedness(inner, memory)
    if known is None or abs(number) > 1 << 20:
        return None
    number = number if opname(node) == "add" else -number
    return known._replace(limit=known.limit + number if known.limit is not None and number >= 0 else None)


def _divided(node: fx.Node, memory: Memory) -> Sorted | None:
    inner, number = node.args[:2]
    floor = opname(node) == "floor_divide" or node.kwargs.get("rounding_mode") == "floor"
    if not isinstance(inner, fx.Node) or not isinstance(number, int) or number <= 0 or not floor:
        return None
    known = sortedness(inner, memory)
    return known and known._replace(why=f"{known.why}, divided")


_SORTED = {
    **dict.fromkeys(("searchsorted", "bucketize"), _count),
    "arange": _arange,
    "repeat_interleave": _repeated,
    "cumsum": _accumulated,
    **dict.fromkeys(_KEEP_VALUES, _kept),
    **dict.fromkeys(("to", "to_copy"), _cast),
    **dict.fromkeys(("add", "sub"), _shifted),
    **dict.fromkeys(("floor_divide", "div"), _divided),
}


def upper_bound(node: fx.Node, memory: Memory) -> int | None:
    """A small number that no value of `node` exceeds, where none is negative either; None if none is known."""
    held = value(node)
    if not isinstance(held, Tensor) or memory.changed(node):
        return None
    if held.dtype is torch.bool:
        return 1
    name = opname(node)
    inner = node.args[0] if node.args else None
    if name in ("ones", "new_ones", "ones_like"):
        return 1
    if name in ("zeros", "new_zeros", "zeros_like"):
        return 0
    if name in ("full", "new_full", "full_like", "scalar_tensor"):
        filled = node.kwargs.get("fill_value", node.args[-1] if node.args else None)
        return filled if isinstance(filled, int) and 0 <= filled <= _SMALL else None
    if name in (*_KEEP_VALUES, "to", "to_copy") and isinstance(inner, fx.Node):
        return upper_bound(inner, memory)
    if name in ("index_put", "scatter", "index_fill") and isinstance(inner, fx.Node):
        return _written(node, memory)
    if name == "cat" and isinstance(inner, list | tuple):
        bounds = [upper_bound(one, memory) for one in inner if isinstance(one, fx.Node)]
        return max(known) if (known := [b for b in bounds if b is not None]) and len(known) == len(bounds) else None
    if name in ("constant_pad_nd", "pad") and isinstance(inner, fx.Node):
        filled = _argument(node, 2 if name == "constant_pad_nd" else 3, "value", 0) or 0
        bound = upper_bound(inner, memory)
        return max(bound, int(filled)) if bound is not None and filled in (0, 1, True, False) else None
    return None


def _written(node: fx.Node, memory: Memory) -> int | None:
    """The bound of a tensor that was written into; in place, it is the tensor as it was before that counts."""
    origin_ = node.args[0]
    assert isinstance(origin_, fx.Node)
    if _argument(node, 3, "accumulate", False) is True and opname(node) == "index_put":
        return None
    new = node.args[2 if opname(node) == "index_put" else 3] if len(node.args) > 2 else None
    before = _bound_before_write(origin_, node, memory)
    written = new if isinstance(new, int) and 0 <= new <= _SMALL else None
    if isinstance(new, fx.Node):
        written = None if memory.changed(new) else _constant_value(new)
    return None if before is None or written is None else max(before, written)


def _bound_before_write(node: fx.Node, write: fx.Node, memory: Memory) -> int | None:
    if memory.changed(node, memory.position(write)):
        return None
    name = opname(node)
    return {"zeros": 0, "new_zeros": 0, "zeros_like": 0, "ones": 1}.get(name)


def _constant_value(node: fx.Node) -> int | None:
    """The value of a one-element constant of the graph."""
    while opname(node) in ("lift_fresh_copy", "lift_fresh", "to", "to_copy", "detach"):
        (inner, *_) = node.args
        assert isinstance(inner, fx.Node)
        node = inner
    if opname(node) in ("ones", "ones_like", "new_ones"):
        return 1
    if node.op != "get_attr" or node.graph.owning_module is None:
        return None
    held = getattr(node.graph.owning_module, str(node.target), None)
    if not isinstance(held, Tensor) or held.numel() != 1 or held.dtype.is_floating_point:
        return None
    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        try:
            number = int(held.item())
        except Exception:  # a fake constant has no value
            return None
    return number if 0 <= number <= _SMALL else None


def origin(node: fx.Node) -> str:
    """The input or the operator that `node` goes back to through views and conversions, in words."""
    seen = 0
    while seen < 50 and node.op == "call_function" and node.args and isinstance(node.args[0], fx.Node):
        if opname(node) in (*_KEEP_VALUES, "to", "to_copy", "diff", "sub", "cat", "eq", "ne", "cumsum"):
            node, seen = node.args[0], seen + 1
        else:
            break
    return node.name if node.op == "placeholder" else opname(node) or node.name


def steps_by_one(tags: fx.Node, positions: fx.Node, memory: Memory) -> bool:
    """Whether `positions` count up by one inside every run of equal `tags`.

    They do if the tags are the cumulative sum of `diff(positions) != 1`: a row whose position is not its
    predecessor's plus one begins a new tag.
    """
    if opname(tags) != "cumsum" or memory.changed(tags):
        return False
    unequal = _values(tags.args[0], memory)
    if unequal is None or opname(unequal) != "ne" or unequal.args[1] != 1:
        return False
    difference = _values(unequal.args[0], memory)
    if difference is None or opname(difference) != "diff":
        return False
    if _argument(difference, 1, "n", 1) != 1:
        return False
    rank = tensor(difference).dim()
    axes = (_argument(difference, 2, "dim", -1) % rank, _argument(tags, 1, "dim") % rank)
    if axes != (rank - 1, rank - 1) or tensor(positions).dtype not in (torch.int64, torch.int32):
        return False
    if _argument(difference, 4, "append") is not None or _argument(difference, 3, "prepend") is None:
        return False
    prepend = _argument(difference, 3, "prepend")
    if not isinstance(prepend, fx.Node) or shape(prepend)[-1] != 1:
        return False
    counted = _values(difference.args[0], memory)
    return counted is not None and counted is _values(positions, memory)


def _values(node: Any, memory: Memory) -> fx.Node | None:
    """The node whose values `node` holds in the same places; None if something on the way is written to."""
    while isinstance(node, fx.Node) and not memory.changed(node):
        if opname(node) not in ("detach", "alias", "clone", "contiguous", "lift_fresh_copy"):
            return node
        (node, *_) = node.args
    return None
