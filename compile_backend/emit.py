"""Writing into Dynamo's graph."""

import operator
from collections.abc import Callable
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from shapecheck.compile_backend.reading import size
from torch import Tensor, fx


class CannotLower(Exception):
    """The attention is understood, and something in Dynamo's graph or in the kernel stands in the way."""


class Writer:
    """Writes calls into a graph: of methods by name, of functions by themselves.

    Nodes say that they hold a tensor, or AOTAutograd's cache refuses methods of them, and not which: to compute fake
    values could install guards that the program has not.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph

    def __call__(self, target: str | Callable[..., Any], *args: Any, **kwargs: Any) -> fx.Node:
        """The call of `target`: a method by name, or a function."""
        if isinstance(target, str):
            node = self._graph.call_method(target, args, kwargs)
        else:
            node = self._graph.call_function(target, args, kwargs)
        node.meta["example_value"] = None
        return node


class SizeNodes:
    """Sizes as numbers, or as nodes of a graph that hold them."""

    def __init__(self, graph: fx.Graph, before: fx.Node) -> None:
        self._graph = graph
        self._before = before
        self._known: dict[sympy.Expr, Any] = {}

    def __call__(self, expression: sympy.Expr) -> Any:
        """A number, or a node that holds it.

        Raises:
            CannotLower: if no tensor at hand has that size.
        """
        if expression.is_Integer:
            return int(expression)
        if expression not in self._known:
            self._known[expression] = self._find(expression) or self._compute(expression)
        return self._known[expression]

    def _compute(self, expression: sympy.Expr) -> fx.Node:
        function = {True: operator.add, False: operator.mul}[bool(expression.is_Add)]
        if not expression.is_Add and not expression.is_Mul:
            raise CannotLower(f"no tensor at hand has {expression} rows")
        first, *rest = map(self, expression.args)
        for one in rest:
            first = Writer(self._graph)(function, first, one)
        assert isinstance(first, fx.Node)
        return first

    def _find(self, expression: sympy.Expr) -> fx.Node | None:
        for node in self._graph.nodes:
            if node is self._before:
                break
            held = node.meta.get("example_value")
            if isinstance(held, torch.SymInt) and sympy.expand(held.node.expr - expression) == 0:
                found: fx.Node = node
                return found
        for node in self._graph.nodes:
            if node is self._before:
                break
            held = node.meta.get("example_value")
            if not isinstance(held, Tensor):
                continue
            for axis, one in enumerate(held.shape):
                if sympy.expand(size(one) - expression) == 0:
                    return Writer(self._graph)("size", node, axis)
        return None
