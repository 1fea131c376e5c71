"""What is known of the values of boundaries by the way they were made."""

from typing import Any, ClassVar, NamedTuple

import sympy  # type: ignore[import-untyped]
import torch
from shapecheck.compile_backend import facts
from shapecheck.compile_backend.normalize import Normalized
from shapecheck.compile_backend.reading import Memory, opname, shape, size, tensor, value
from torch import Tensor, fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._pytree import tree_leaves

_MOST = 4096
"""Constants of more numbers than this are not looked at."""

_WIDE = (torch.int64, torch.int32)
_SAME = {"view", "reshape", "clone", "contiguous", "detach", "alias", "lift_fresh", "lift_fresh_copy", "flatten"}
_CONVERTED = {"to", "to_copy"}


class Known(NamedTuple):
    """Facts about a row of integers; each may be missing.

    Attributes:
        source: how it was made, in words.
        values: all of them, where they are constants of the program.
        first: the first.
        ordered: why they never decrease; `""` if that is not known.
        least: none is less than this.
        last: if they never decrease, none is more than this.
    """

    source: str
    values: tuple[int, ...] | None = None
    first: int | None = None
    ordered: str = ""
    least: int | None = None
    last: sympy.Expr | None = None


class Reader:
    """Facts about the nodes of one normalized graph."""

    def __init__(self, normalized: Normalized, memory: Memory) -> None:
        self._normalized = normalized
        self._memory = memory

    def known(self, node: fx.Node, reader: fx.Node) -> Known:
        """What is known of a `[n]` tensor of integers when `reader` runs."""
        source = self.source(node)
        if self._memory.changed(node, self._memory.position(reader)):
            return Known(f"{source}, written to in place")
        held = tensor(node)
        if held.dim() != 1 or held.dtype not in _WIDE:
            return Known(source)
        values = self._constant(node)
        if values is not None:
            return of_constants(values)
        rule = self._RULES.get(opname(node))
        found = None if rule is None else rule(self, node, reader)
        if found is None:
            order = facts.sortedness(node, self._memory)
            if order is not None:
                limit = order.limit
                found = Known(
                    source, None, None, order.why, None if limit is None else 0, None if limit is None else limit - 1
                )
        return found or Known(source)

    def source(self, node: fx.Node) -> str:
        """The input that a node goes back to, and by which operators, in words."""
        names: list[str] = []
        for _ in range(20):
            name = opname(node)
            inner = next((one for one in node.all_input_nodes if isinstance(value(one), Tensor)), None)
            if name == "cat":  # of the parts, the one that is not the leading zero
                inner = node.all_input_nodes[-1]
            if inner is None or node.op != "call_function":
                break
            if name not in _SAME | _CONVERTED and name not in names[-1:]:
                names.append(name or str(node.target))
            node = inner
        start = (
            self._input(node) if node.op == "placeholder" else "a constant" if node.op == "get_attr" else opname(node)
        )
        return " of ".join([*names, start or node.name])

    def _input(self, node: fx.Node) -> str:
        place = self._normalized.place(node)
        name = str(place.node.target) if place is not None else node.name
        return f"input {name.removeprefix('L_').strip('_')}"

    # Constants ------------------------------------------------------------------------------------------------------

    def _constant(self, node: fx.Node) -> tuple[int, ...] | None:
        """The numbers of a row that is the same in every call."""
        held = self._evaluate(node, 0)
        return tuple(held.tolist()) if held is not None and held.dim() == 1 else None

    def _evaluate(self, node: fx.Node, depth: int) -> Tensor | None:
        held = value(node)
        if not isinstance(held, Tensor) or depth > 20 or held.is_floating_point() or held.is_complex():
            return None
        if not all(one.is_Integer for one in shape(node)) or held.numel() > _MOST or self._memory.changed(node):
            return None
        name = opname(node)
        if name == "detach" and isinstance(inner := node.args[0], fx.Node) and opname(inner) == "lift_fresh_copy":
            node = inner  # torch.tensor([...]) detaches what it made in place
        if opname(node) == "lift_fresh_copy":
            return _literal(node)
        if name in ("new_zeros", "new_ones"):  # what they were made from lends only its dtype and device
            with unset_fake_temporarily():
                return torch.full(tuple(held.shape), int(name == "new_ones"), dtype=held.dtype)
        if name not in _PURE or not isinstance(node.target, torch._ops.OpOverload):
            return None
        inputs: dict[fx.Node, Any] = {}
        for inner in node.all_input_nodes:
            inputs[inner] = self._evaluate(inner, depth + 1)
            if inputs[inner] is None:
                return None
        args, kwargs = fx.map_arg((node.args, node.kwargs), inputs.__getitem__)
        if any(isinstance(one, torch.SymInt) for one in tree_leaves((args, kwargs))):
            return None  # to compute with it would install a guard
        on_host = {**kwargs, "device": "cpu"} if "device" in kwargs else kwargs
        with unset_fake_temporarily(), torch.no_grad():
            result = node.target(*(one.clone() if isinstance(one, Tensor) else one for one in args), **on_host)
        return result if isinstance(result, Tensor) else None

    # Rules ----------------------------------------------------------------------------------------------------------

    def _kept(self, node: fx.Node, reader: fx.Node) -> Known | None:
        inner = node.args[0]
        if not isinstance(inner, fx.Node) or not isinstance(value(inner), Tensor) or shape(inner) != shape(node):
            return None
        return self.known(inner, reader)

    def _sliced(self, node: fx.Node, reader: fx.Node) -> Known | None:
        inner, axis, start, _, step = (*node.args, *(None,) * 5)[:5]
        if not isinstance(inner, fx.Node) or axis not in (None, 0) or step not in (None, 1) or tensor(inner).dim() != 1:
            return None
        known = self.known(inner, reader)
        cut = shape(node) != shape(inner)
        source = f"a slice of {known.source}" if cut else known.source
        return known._replace(source=source, first=known.first if start in (None, 0) else None)

    def _joined(self, node: fx.Node, reader: fx.Node) -> Known | None:
        parts, axis = node.args[0], node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
        if axis not in (0, -1) or not isinstance(parts, list | tuple) or len(parts) != 2:
            return None
        head, tail = parts
        if not isinstance(head, fx.Node) or not isinstance(tail, fx.Node) or tensor(tail).dim() != 1:
            return None
        return self._headed(self._constant(head), self.known(tail, reader))

    def _padded(self, node: fx.Node, reader: fx.Node) -> Known | None:
        inner, widths, *rest = node.args
        if opname(node) == "pad":
            mode, filled = (*rest, None, None)[:2]
            mode, filled = node.kwargs.get("mode", mode), node.kwargs.get("value", filled)
            if mode not in (None, "constant"):
                return None
        else:
            filled = (*rest, node.kwargs.get("value", 0))[0]
        if not isinstance(inner, fx.Node) or not isinstance(widths, list | tuple) or tuple(widths) != (1, 0):
            return None
        if filled is not None and not isinstance(filled, int):
            return None
        return self._headed((filled or 0,), self.known(inner, reader))

    def _headed(self, head: tuple[int, ...] | None, tail: Known) -> Known | None:
        """A constant with something behind it."""
        if not head:
            return None
        joins = tail.ordered and tail.least is not None and list(head) == sorted(head) and head[-1] <= tail.least
        source = f"{tail.source} behind a {head[0]}" if len(head) == 1 else tail.source
        if not joins:
            return Known(source, None, head[0])
        return Known(source, None, head[0], tail.ordered, head[0], tail.last)

    def _summed(self, node: fx.Node, reader: fx.Node) -> Known | None:
        inner = node.args[0]
        if not isinstance(inner, fx.Node) or tensor(inner).dim() != 1:
            return None
        if not self._never_negative(inner, reader):
            return None
        return Known(self.source(node), None, None, "a running sum of what is never negative", 0)

    def _range(self, node: fx.Node, reader: fx.Node) -> Known | None:
        start, end = (0, node.args[0]) if len(node.args) == 1 else node.args[:2]
        step = node.kwargs.get("step", node.args[2] if len(node.args) > 2 else 1)
        stop, width = whole_number(end), whole_number(step)
        if not isinstance(start, int) or start < 0 or stop is None or width is None or not width.is_nonnegative:
            return None
        # A step of 0 is an error. The last number is the largest below the end that the steps reach.
        steps = sympy.cancel((stop - start) / width)
        last = stop - width if _is_whole(steps) else stop - 1
        return Known("arange", None, start, "arange", start, sympy.expand(last))

    def _scaled(self, node: fx.Node, reader: fx.Node) -> Known | None:
        inner, factor = node.args[:2]
        if not isinstance(inner, fx.Node) or not isinstance(value(inner), Tensor):
            inner, factor = factor, inner
        by = whole_number(factor)
        if not isinstance(inner, fx.Node) or by is None or not by.is_nonnegative or shape(inner) != shape(node):
            return None
        known = self.known(inner, reader)
        return Known(
            f"{known.source} times {by}",
            None,
            0 if known.first == 0 else None,
            known.ordered,
            0 if known.least is not None and known.least >= 0 else None,
            None if known.last is None else sympy.expand(known.last * by),
        )

    _RULES: ClassVar = {
        **dict.fromkeys(_SAME | _CONVERTED, _kept),
        "slice": _sliced,
        "cat": _joined,
        **dict.fromkeys(("pad", "constant_pad_nd"), _padded),
        "cumsum": _summed,
        "arange": _range,
        "mul": _scaled,
    }

    def _never_negative(self, node: fx.Node, reader: fx.Node) -> bool:
        if self._memory.changed(node, self._memory.position(reader)):
            return False
        if facts.upper_bound(node, self._memory) is not None:
            return True
        values = self._constant(node)
        if values is not None:
            return min(values, default=0) >= 0
        name = opname(node)
        inner = node.args[0] if node.args else None
        if name == "bincount":
            return True
        if not isinstance(inner, fx.Node) or not isinstance(value(inner), Tensor):
            return False
        if name in ("diff", "sub"):
            bounds = self.differences(node)
            return bounds is not None and bool(self.known(bounds, reader).ordered)
        if name in ("clamp", "clamp_min"):
            least = node.args[1] if len(node.args) > 1 else node.kwargs.get("min")
            return isinstance(least, int) and least >= 0 and not tensor(inner).is_floating_point()
        if name in ("to", "to_copy") and (tensor(node).dtype not in _WIDE or tensor(inner).is_floating_point()):
            return False
        passed = _SAME | _CONVERTED | {"slice", "select", "squeeze", "unsqueeze", "sum"}
        return name in passed and self._never_negative(inner, reader)

    # Longest segments -----------------------------------------------------------------------------------------------

    def differences(self, node: fx.Node) -> fx.Node | None:
        """The row of which `node` holds the steps from each number to the next; None if it is none."""
        if opname(node) == "diff":
            inner = node.args[0]
            return inner if isinstance(inner, fx.Node) and len(node.args) == 1 and not node.kwargs else None
        if opname(node) != "sub" or node.kwargs or len(node.args) != 2:
            return None
        behind, before = node.args
        if not (isinstance(behind, fx.Node) and isinstance(before, fx.Node)):
            return None
        if opname(behind) != "slice" or opname(before) != "slice" or behind.args[0] is not before.args[0]:
            return None
        (_, axis, start, _, *step), (_, axis_, start_, end_, *step_) = behind.args, before.args
        if (axis, axis_, start, start_, end_) != (0, 0, 1, 0, -1) or step not in ([], [1]) or step_ not in ([], [1]):
            return None
        inner = behind.args[0]
        return inner if isinstance(inner, fx.Node) and shape(behind)[0] == shape(inner)[0] - 1 else None

    def is_longest(self, node: Any, boundaries: Any) -> bool:
        """Whether a number was taken as the longest segment of `boundaries`, or of the lengths these sum up."""
        if not isinstance(node, fx.Node) or not isinstance(boundaries, fx.Node):
            return False
        bases = self._bases(boundaries)
        while opname(node) in {"item", "local_scalar_dense", *_SAME, *_CONVERTED}:
            inner = node.args[0]
            if not isinstance(inner, fx.Node):
                return False
            node = inner
        if opname(node) not in ("max", "amax") or len(node.all_input_nodes) != 1 or len(node.args) > 1:
            return False
        (lengths,) = node.all_input_nodes
        if self._memory.changed(lengths):
            return False
        summed = {self._plain(one.args[0]) for one in bases if opname(one) == "cumsum"}
        if self._plain(lengths) in summed:
            return True
        steps = self.differences(self._plain(lengths))
        return steps is not None and self._plain(steps) in bases

    def _bases(self, node: fx.Node) -> set[fx.Node]:
        """A row of boundaries, what it is a copy of, and what stands behind its leading zero."""
        found: set[fx.Node] = set()
        while not self._memory.changed(node):
            node = self._plain(node)
            found.add(node)
            name, inner = opname(node), node.args[0] if node.args else None
            if name == "cat" and isinstance(inner, list | tuple) and len(inner) == 2:
                inner = inner[1]
            elif name not in ("pad", "constant_pad_nd"):
                break
            if not isinstance(inner, fx.Node):
                break
            node = inner
        return found

    def _plain(self, node: Any) -> Any:
        while isinstance(node, fx.Node) and opname(node) in _SAME | _CONVERTED and isinstance(node.args[0], fx.Node):
            if shape(node) != shape(node.args[0]):
                break
            node = node.args[0]
        return node


_PURE = {
    *("arange", "zeros", "ones", "full", "cat", "cumsum", "pad", "constant_pad_nd"),
    *("add", "sub", "mul", "slice", "select", "unsqueeze", "squeeze", "diff", "sum", "repeat_interleave"),
    *(_SAME - {"lift_fresh_copy"}),
    *_CONVERTED,
}


def _literal(node: fx.Node) -> Tensor | None:
    """The tensor that `torch.tensor([...])` makes of numbers in the program."""
    inner = node.args[0]
    if not isinstance(inner, fx.Node) or inner.op != "get_attr" or node.graph.owning_module is None:
        return None
    held = getattr(node.graph.owning_module, str(inner.target), None)
    if not isinstance(held, Tensor) or isinstance(held, torch._subclasses.FakeTensor):
        return None
    with unset_fake_temporarily():
        return held.detach().cpu().clone()


def of_constants(values: tuple[int, ...]) -> Known:
    """What there is to know of numbers of the program."""
    shown = ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")
    ordered = "constants" if list(values) == sorted(values) else ""
    last = sympy.Integer(values[-1]) if values else None
    return Known(f"constants [{shown}]", values, values[0] if values else None, ordered, min(values, default=0), last)


def whole_number(of: Any) -> sympy.Expr | None:
    """A number of the program, or a node that holds one, where it is whole."""
    held = value(of) if isinstance(of, fx.Node) else of
    return size(held) if isinstance(held, int | torch.SymInt) else None


def _is_whole(quotient: sympy.Expr) -> bool:
    """Whether a quotient of whole numbers is known to be whole: a polynomial of them, with whole factors."""
    symbols = quotient.free_symbols
    if not symbols:
        return bool(quotient.is_Integer)
    if not quotient.is_polynomial(*symbols) or not all(one.is_integer for one in symbols):
        return False
    return all(one.is_Integer for one in sympy.Poly(quotient, *symbols).coeffs())
