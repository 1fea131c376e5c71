"""Removing from Dynamo's graph what nothing needs any more."""

import operator

import torch
from shapecheck.compile_backend import flex
from torch import Tensor, fx


def erase(node: fx.Node) -> None:
    """Erase `node` and what only it needed, as far as that has no effect."""
    _erase(node, set())


def erase_unused(node: fx.Node) -> None:
    """Erase `node`, and what only it needed, if nothing needs it and it has no effect."""
    _erase_unused(node, set())


def _erase(node: fx.Node, gone: set[fx.Node]) -> None:
    inputs = list(node.all_input_nodes)
    node.graph.erase_node(node)
    gone.add(node)
    for one in inputs:
        _erase_unused(one, gone)


def _erase_unused(node: fx.Node, gone: set[fx.Node]) -> None:
    for result in list(node.users):
        if result.target is operator.getitem and not result.users:
            node.graph.erase_node(result)
            gone.add(result)
    if node not in gone and not node.users and node.op in ("call_function", "call_method") and _pure(node):
        _erase(node, gone)


_CHANGES = ("set", "iadd", "iand", "ior", "imul", "isub", "copy")
_RANDOM = ("manual_seed", "rand", "dropout", "bernoulli")
_EFFECTS = (*_CHANGES, *_RANDOM, "_assert")


def _pure(node: fx.Node) -> bool:
    name = str(getattr(node.target, "__name__", node.target))
    if name.endswith("_") and not name.endswith("__"):
        return name in ("and_", "or_", "not_")
    if name.startswith(_EFFECTS):
        return False
    return name == flex.NAME or isinstance(node.meta.get("example_value"), Tensor | torch.SymInt)
