"""What can be read off a node of the normalized graph: sizes, operators, and whether its memory is changed in place."""

import os
from collections import defaultdict
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from shapecheck.compile_backend.normalize import Normalized
from torch import Tensor, fx

import shapecheck


def opname(node: fx.Node) -> str:
    """The ATen operator of `node` without namespace, overload and the underscores around, such as `"masked_fill"`.

    An operator that works in place is called as its pure twin is; `""` for what is no operator of ATen.
    """
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return ""
    return target._schema.name.removeprefix("aten::").strip("_")


def value(node: fx.Node) -> Any:
    """The fake value of a node: a tensor, a number, or None."""
    return node.meta.get("val")


def tensor(node: fx.Node) -> Tensor:
    """The fake tensor of a node that holds one."""
    val = value(node)
    assert isinstance(val, Tensor)
    return val


def size(of: Any) -> sympy.Expr:
    """An int, a symbolic int, or a node that holds one, as an expression of symbolic sizes."""
    if isinstance(of, fx.Node):
        of = value(of)
    if isinstance(of, torch.SymInt):
        return of.node.expr
    return sympy.Integer(int(of))


def shape(node: fx.Node) -> tuple[sympy.Expr, ...]:
    """The shape of a node's tensor."""
    return tuple(map(size, tensor(node).shape))


_PACKAGES = tuple(
    f'File "{os.path.join(os.path.dirname(str(package.__file__)), "")}' for package in (shapecheck, torch)
)


def hint(of: int | torch.SymInt) -> int | None:
    """A size as a number, of a symbolic one its value in the call that was captured; None if that is not known."""
    if isinstance(of, torch.SymInt):
        return int(of.node.hint) if of.node.has_hint() else None
    return of


def shape_text(node: fx.Node) -> str:
    """The shape of a node's tensor as text, such as `"[1, 8, s0, 64]"`."""
    return f"[{', '.join(map(str, shape(node)))}]"


def location(node: fx.Node) -> str:
    """File and line of the innermost frame, outside of shapecheck and torch, that made a node of Dynamo's graph.

    `""` if unknown.
    """
    trace = node.meta.get("stack_trace") or node.stack_trace or ""
    lines = [line.strip() for line in trace.splitlines() if line.strip().startswith('File "')]
    lines = [line for line in lines if not line.startswith((*_PACKAGES, 'File "<shapecheck'))] or lines
    if not lines:
        return ""
    file, line, *_ = lines[-1].removeprefix('File "').split('", line ')
    return f"{file}:{line.split(',')[0]}"


_SWITCHES = ("set_grad_enabled", "enter_autocast", "exit_autocast", "inference_mode", "enter_inference")
"""Calls that change what the following operators compute or record."""


class Memory:
    """Which nodes share memory, when it is written to, and in which regions nodes run."""

    def __init__(self, normalized: Normalized) -> None:
        self._position = {node: position for position, node in enumerate(normalized.graph.nodes)}
        self._writes: dict[int, list[int]] = defaultdict(list)
        self._written: dict[fx.Node, set[int]] = defaultdict(set)
        self._switches: list[int] = []
        for node, position in self._position.items():
            target = node.target
            if any(word in str(getattr(target, "__name__", target)) for word in _SWITCHES):
                self._switches.append(position)
            if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
                continue
            if opname(node) == "detach":  # in place it takes the gradients, and leaves the values
                continue
            for index, argument in enumerate(target._schema.arguments):
                if argument.alias_info is None or not argument.alias_info.is_write:
                    continue
                written = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
                for one in written if isinstance(written, list | tuple) else (written,):
                    if isinstance(one, fx.Node) and isinstance(value(one), Tensor):
                        self._writes[_storage(one)].append(position)
                        self._written[node].add(_storage(one))

    def position(self, node: fx.Node) -> int:
        """When `node` runs: its place in the order of the graph."""
        return self._position[node]

    def written(self, node: fx.Node) -> frozenset[int]:
        """The storages that `node` writes to in place."""
        return frozenset(self._written.get(node, ()))

    def storage(self, node: fx.Node) -> int | None:
        """The storage of the tensor that `node` holds, None if it holds none."""
        return _storage(node) if isinstance(value(node), Tensor) else None

    def same_region(self, one: fx.Node, other: fx.Node) -> bool:
        """Whether gradients and autocast are neither switched on nor off between two nodes."""
        first, last = sorted((self._position[one], self._position[other]))
        return not any(first < switch < last for switch in self._switches)

    def changed(self, node: fx.Node, until: int | None = None) -> bool:
        """Whether the values of `node` are overwritten after they were computed, before `until`; None: ever."""
        writes = self._writes.get(_storage(node))
        if not writes:
            return False
        made = self._position[self._maker(node)]
        return any(made < write and (until is None or write < until) for write in writes)

    def _maker(self, node: fx.Node) -> fx.Node:
        """The operator that computed the values of which `node` is a view; of a write, the write."""
        while not _writes_in_place(node):
            source = node.args[0] if node.args else None
            if not isinstance(source, fx.Node) or not isinstance(value(source), Tensor):
                break
            if _storage(source) != _storage(node):
                break
            node = source
        return node


def _writes_in_place(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def _storage(node: fx.Node) -> int:
    held = tensor(node)
    while torch._C._functorch.is_functorch_wrapped_tensor(held):
        held = torch._C._functorch.get_unwrapped(held)
    return int(held.untyped_storage()._cdata)
