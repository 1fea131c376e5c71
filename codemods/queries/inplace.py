"""Writes into a buffer, and views of it: on the syntax tree, because a view and its buffer are the same memory."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_IN_PLACE = {
    "copy_",
    "fill_",
    "zero_",
    "add_",
    "sub_",
    "mul_",
    "cumsum_",
    "clamp_",
    "masked_fill_",
    "index_copy_",
    "fill",
}
_VIEWS = {"detach", "view", "unsqueeze", "squeeze"}
_WRAPS = {"from_numpy"}


@dataclass(frozen=True, eq=False)
class Write:
    """`index` of the buffer `base` (as written) is overwritten; None: all of it."""

    base: str
    index: ast.expr | None
    node: ast.AST
    torch_method: bool = False


def writes(nodes: Iterable[ast.AST]) -> Iterator[Write]:
    """The in-place writes among nodes."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and (base := written(target.value)) is not None:
                    yield Write(base, target.slice, node)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Subscript) and (base := written(node.target.value)) is not None:
                yield Write(base, node.target.slice, node)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _IN_PLACE:
                yield from _to(node.func.value, node, torch_method=node.func.attr.endswith("_"))
            for keyword in node.keywords:
                if keyword.arg == "out":
                    yield from _to(keyword.value, node)


def _to(target: ast.expr, node: ast.AST, *, torch_method: bool = False) -> Iterator[Write]:
    index: ast.expr | None = None
    if isinstance(target, ast.Subscript):
        index = target.slice
        target = target.value
    base = written(target)
    if base is not None:
        yield Write(base, index, node, torch_method)


def written(node: ast.expr) -> str | None:
    """A name or a chain of attributes as written; None for other expressions."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def view_of(node: ast.expr) -> tuple[str, ast.expr | None] | None:
    """The buffer and the index, if the expression is the same memory."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _VIEWS:
            return view_of(node.func.value)
        if node.func.attr in _WRAPS and len(node.args) == 1 and not node.keywords:
            return view_of(node.args[0])
    if isinstance(node, ast.Subscript):
        base = written(node.value)
        return None if base is None else (base, node.slice)
    base = written(node)
    return None if base is None else (base, None)


def starts_at_the_same_place(index: ast.expr | None) -> bool:
    """Whether an index begins at a constant place in every round of a loop."""
    if index is None or isinstance(index, ast.Constant):
        return True
    if isinstance(index, ast.Slice):
        return (index.lower is None or isinstance(index.lower, ast.Constant)) and index.step is None
    return isinstance(index, ast.Tuple) and all(starts_at_the_same_place(part) for part in index.elts)


def nodes_of(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of statements, without those of nested functions."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        yield node
        stack.extend(ast.iter_child_nodes(node))
