"""Whether a value is a tensor of torch or an array of numpy, where the code says so: fixes call methods of one."""

import ast
import re
from collections.abc import Iterator
from typing import Literal

from shapecheck.codemods.engine.events import Binding
from shapecheck.codemods.view import View

Library = Literal["torch", "numpy", "array"]

_OF_TORCH = frozenset(
    {"to", "long", "int", "clone", "detach", "unsqueeze", "cpu", "cuda", "diff", "contiguous", "copy_"}
)
_OF_BOTH = frozenset({"cumsum", "reshape", "flatten", "ravel", "squeeze", "view"})
_TENSOR = re.compile(r"(torch\.)?(Int|Long)?Tensor")
_ARRAY = re.compile(r"(np|numpy)\.ndarray")


def library_of(view: View, node: ast.AST, bindings: list[Binding] | None = None) -> Library | None:
    """`torch`, `numpy`, or `array` for one of the two; None where the value may be something else, such as a list.

    `bindings` are those that count for names and attributes; the function's own if not given.
    """
    found = set(_libraries(view, node, view.bindings if bindings is None else bindings, frozenset()))
    if found == {"torch"}:
        return "torch"
    if found == {"numpy"}:
        return "numpy"
    return "array" if found and "" not in found else None


def _libraries(view: View, node: ast.AST, bindings: list[Binding], seen: frozenset[str]) -> Iterator[str]:
    """The libraries of all that an expression may be made of; "" for what is unknown."""
    match node:
        case ast.Call(func=func):
            yield from _of_call(view, func, bindings, seen)
        case ast.Subscript(value=value, slice=ast.Slice() | ast.Tuple()):
            yield from _libraries(view, value, bindings, seen)
        case ast.BinOp(left=left, right=right):
            yield from _libraries(view, right if isinstance(left, ast.Constant) else left, bindings, seen)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _libraries(view, body, bindings, seen)
            yield from _libraries(view, orelse, bindings, seen)
        case ast.Name() | ast.Attribute():
            yield from _of_name(view, ast.unparse(node), bindings, seen)
        case _:
            yield ""


def _of_call(view: View, func: ast.expr, bindings: list[Binding], seen: frozenset[str]) -> Iterator[str]:
    root = func
    while isinstance(root, ast.Attribute):
        root = root.value
    library = view.module.imports.get(root.id, "").partition(".")[0] if isinstance(root, ast.Name) else ""
    method = func.attr if isinstance(func, ast.Attribute) else ""
    if library:
        yield library if library in {"torch", "numpy"} else ""
    elif method in {"numpy", "astype"}:
        yield "numpy"
    elif method in _OF_TORCH:
        yield "torch"
    elif method in _OF_BOTH and isinstance(func, ast.Attribute):
        for one in _libraries(view, func.value, bindings, seen):
            yield one or "array"
    else:
        yield ""


def _of_name(view: View, name: str, bindings: list[Binding], seen: frozenset[str]) -> Iterator[str]:
    if name in seen:
        return  # `x = x[1:]` says nothing new
    parameter = view.function.parameters.get(name)
    if parameter is not None and isinstance(parameter.node, ast.arg):
        written = "" if parameter.node.annotation is None else ast.unparse(parameter.node.annotation)
        yield "torch" if _TENSOR.fullmatch(written) else "numpy" if _ARRAY.fullmatch(written) else ""
    bound = [binding for binding in bindings if binding.target == name and binding.value.op not in {"store", "filled"}]
    for binding in bound:
        if binding.value_node is None:
            yield ""
        elif isinstance(binding.node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            yield from _libraries(view, binding.value_node, bindings, seen | {name})
    if not bound and parameter is None:
        yield ""
