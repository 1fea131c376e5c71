"""A normalized copy of a captured graph, for analysis only.

Dynamo's graph holds Python functions, methods, `getitem` with slices and bodies of higher-order operators; one and the
same mask can be written in it in countless ways. The copy holds some dozens of ATen operators, with attention still one
node, and everything inlined. It is never compiled: traced copies lose custom `autograd.Function`s, checkpointing and
closures of FlexAttention (measured on torch 2.13: a gradient of 4.0 became 1.0). What is found in it is rewritten in
Dynamo's graph, through the places that it remembers.
"""

import math
import operator
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from shapecheck.compile_backend import flex
from shapecheck.compile_backend.flex import Flex
from shapecheck.compile_backend.vmap import Maps, varying
from torch import Tensor, fx
from torch._guards import detect_fake_mode
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing,
    get_proxy_mode,
    get_proxy_slot,
    has_proxy_slot,
    make_fx,
    track_tensor_tree,
)
from torch.nn import functional

_INLINED = {"tag_activation_checkpoint": 1, "wrap": 1, "wrap_activation_checkpoint": 1, "invoke_subgraph": 2}
"""Operators whose body is part of the computation, and where the operands of the body start among their arguments."""


_WHOLE = {functional.linear, functional.layer_norm, functional.rms_norm, functional.gelu, functional.embedding}
"""Operators of which nothing has to be understood: in a transformer, half of the time of the trace."""


_WRITING = {"iadd", "iand", "ifloordiv", "ilshift", "imatmul", "imod", "imul", "ior", "ipow", "irshift", "isub"}
_WRITING |= {"itruediv", "ixor", "setitem"}


class NormalizeError(Exception):
    """The graph cannot be traced; the message says where and why."""


Path = tuple[fx.Node, ...]
"""The calls of nested bodies that lead from Dynamo's graph to a body in it."""


class Place(NamedTuple):
    """A node of Dynamo's graphs: `path` is the calls, from the outside in, whose bodies lead to its graph."""

    path: tuple[fx.Node, ...]
    node: fx.Node


@dataclass(slots=True)
class Normalized:
    """The copy, and how its nodes and Dynamo's correspond.

    Attributes:
        graph: the copy; every node's `meta["val"]` is its fake value.
        places: for a node of the copy, the places that hold its value, in the order of execution.
        floats: for a number in the copy, the place of the Python float of Dynamo's graph that it stands for. Such
            floats vary from call to call; each got a number of its own, so that it is recognized.
        opaque: nodes of the copy that were traced inside an operator whose body is not part of the computation as it
            stands there, such as a custom `autograd.Function`.
        varying: nodes of the copy that hold something else for each element that a `vmap` maps, with their maps.
        flex: for the node of a result of FlexAttention, what its operator was called with.
    """

    graph: fx.Graph
    places: dict[fx.Node, list[Place]] = field(default_factory=dict)
    floats: dict[float, Place] = field(default_factory=dict)
    opaque: set[fx.Node] = field(default_factory=set)
    varying: dict[fx.Node, frozenset[int]] = field(default_factory=dict)
    flex: dict[fx.Node, Flex] = field(default_factory=dict)

    def in_scope(self, node: fx.Node, path: tuple[fx.Node, ...]) -> fx.Node | None:
        """Dynamo's node with the value of `node` in the body that `path` leads to, or None."""
        return next((place.node for place in self.places.get(node, ()) if place.path == path), None)

    def replace(self, old: fx.Node, new: fx.Node) -> None:
        """Note that `new` holds in Dynamo's graph what `old` held."""
        for places in self.places.values():
            places[:] = [Place(place.path, new) if place.node is old else place for place in places]

    def place(self, node: fx.Node) -> Place | None:
        """Where the value of `node` was computed first."""
        return next(iter(self.places.get(node, ())), None)


class _Recorder(fx.Interpreter):
    """Runs a graph and its bodies, and notes the proxy of each result right after it: later, some are gone."""

    def __init__(self, module: fx.GraphModule, found: Normalized, path: Path, maps: Maps, whole: bool) -> None:
        super().__init__(module)
        self._found = found
        self._path = path
        self._maps = maps
        self._keeps_whole = whole

    def run_node(self, n: fx.Node) -> Any:
        place = Place(self._path, n)
        example = n.meta.get("example_value")
        if isinstance(example, torch.SymFloat):
            # `.item()` of a lifted float cannot be traced, and its hint installs no guard.
            return self._number(place, float(example.node.hint))
        if n.op == "call_function" and isinstance(n.target, HigherOrderOperator):
            result = self._higher_order(n)
        elif n.op == "call_function" and (step := self._maps.step(n.target)) is not None:
            result = step(*self.fetch_args_kwargs_from_env(n)[0])
        elif self._keeps_whole and n.target in _WHOLE and (kept := self._whole(n, example)) is not None:
            result = kept
        else:
            result = super().run_node(n)
        proxied = _node_of(result)
        if proxied is not None and not self._maps.inside:  # there, a node of Dynamo's graph is many values at once
            self._found.places.setdefault(proxied, []).append(place)
        return result

    def _whole(self, n: fx.Node, example: Any) -> Tensor | None:
        """The result of `n`, like the one that Dynamo saw, as one node of the copy; None if it has to be traced."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        tracer = _tracer()
        if self._maps.inside or not isinstance(example, Tensor):
            return None
        given = [one for one in (*args, *kwargs.values()) if isinstance(one, Tensor)]
        if not all(has_proxy_slot(one, tracer) for one in given):
            return None

        def proxied(one: Any) -> Any:
            return get_proxy_slot(one, tracer).proxy if isinstance(one, Tensor) else one

        rest = {name: proxied(one) for name, one in kwargs.items()}
        proxy = tracer.create_proxy("call_function", n.target, tuple(map(proxied, args)), rest)
        with disable_proxy_modes_tracing():
            result = torch.empty_strided(example.shape, example.stride(), dtype=example.dtype, device=example.device)
        result.requires_grad_(example.requires_grad)
        track_tensor_tree(result, proxy, constant=None, tracer=tracer)
        return result

    def _higher_order(self, n: fx.Node) -> Any:
        args, _ = self.fetch_args_kwargs_from_env(n)
        name = getattr(n.target, "__name__", str(n.target))
        if name not in _INLINED or not isinstance(args[0], fx.GraphModule):
            last = next(iter(reversed(_tracer().graph.nodes)), None)
            result = super().run_node(n)
            for node in reversed(_tracer().graph.nodes):
                if node is last:
                    break
                self._found.opaque.add(node)
            if name == flex.NAME and (attended := _node_of(result[0])) is not None:
                call = flex.read(args, self._maps, lambda body, *given: self._body(n, body).run(*given), _node_of)
                if call is not None:
                    self._found.flex[attended] = call
            return result
        return self._body(n, args[0]).run(*args[_INLINED[name] :])

    def _body(self, call: fx.Node, module: fx.GraphModule) -> "_Recorder":
        return _Recorder(module, self._found, (*self._path, call), self._maps, self._keeps_whole)

    def _number(self, place: Place, hint: float) -> float:
        number = hint
        for _ in range(3):  # away from the number itself, which the program may hold as a constant too
            number = math.nextafter(number, math.inf)
        while number in self._found.floats and self._found.floats[number].node is not place.node:
            number = math.nextafter(number, math.inf)
        self._found.floats[number] = place
        return number


def _tracer() -> Any:
    mode = get_proxy_mode()
    assert mode is not None
    return mode.tracer


def _node_of(result: Any) -> fx.Node | None:
    """The node that holds a tensor, if one does."""
    tracer = _tracer()
    if not isinstance(result, Tensor) or not has_proxy_slot(result, tracer):
        return None
    node: fx.Node = get_proxy_slot(result, tracer).proxy.node
    return node


def normalize(module: fx.GraphModule) -> Normalized:
    """The normalized copy of a graph that Dynamo captured.

    Traced on the placeholders' fake values: the real inputs would lose dynamic shapes. Adds no guard.

    Raises:
        NormalizeError: if an operator cannot be traced.
    """
    fakes = [n.meta.get("example_value") for n in module.graph.nodes if n.op == "placeholder"]
    mode = detect_fake_mode(fakes)
    found = Normalized(fx.Graph())
    whole = not any(map(_writes, _nodes(module)))

    def run(*args: Any) -> Any:
        return _Recorder(module, found, (), Maps(), whole).run(*args)

    try:
        with _tracing(mode):
            copy = make_fx(run, pre_dispatch=True, _allow_non_fake_inputs=True)(*fakes)
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        raise NormalizeError(f"{type(error).__name__}: {lines[0][:200]}") from error
    found.graph = copy.graph
    found.varying = varying(copy.graph)
    found.graph.owning_module = copy
    return found


def _nodes(module: fx.GraphModule) -> Iterator[fx.Node]:
    for one in module.modules():
        if isinstance(one, fx.GraphModule):
            yield from one.graph.nodes


def _writes(node: fx.Node) -> bool:
    """Whether a node may write to a tensor, whose value in Dynamo's graph may then be a later one."""
    if isinstance(node.target, OpOverload):
        return bool(node.target._schema.is_mutable)
    name = str(getattr(node.target, "__name__", node.target))
    if node.op == "call_function" and getattr(operator, name, None) is node.target:
        return name in _WRITING
    in_place = name.endswith("_") and not name.endswith("__")
    return node.op in ("call_function", "call_method") and (
        in_place or "out" in node.kwargs or bool(node.kwargs.get("inplace"))
    )


@contextmanager
def _tracing(mode: FakeTensorMode | None) -> Iterator[None]:
    with ExitStack() as stack:
        if mode is not None:
            allowed = mode.allow_non_fake_inputs
            mode.allow_non_fake_inputs = True
            stack.callback(setattr, mode, "allow_non_fake_inputs", allowed)
            stack.enter_context(mode)
            if mode.shape_env is not None:
                stack.enter_context(mode.shape_env.ignore_fresh_unbacked_symbols())
        yield
