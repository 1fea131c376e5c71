"""Per-token keys that the file names in one list, of which a function cuts some but not all."""

import ast
from collections.abc import Iterable, Iterator

from shapecheck.codemods.engine.walk import walk
from shapecheck.codemods.queries.partings import is_shift
from shapecheck.codemods.queries.siblings import LeftOut, changed_keys, is_per_row
from shapecheck.codemods.view import Argument, View

_CUTS = {"slice", "pick", "narrow"}
# Made anew from the rows at any time.
_DERIVED = {"attention_mask", "position_ids", "length", "lengths"}


def not_cut(view: View) -> Iterator[LeftOut]:
    """The keys that were left out, where two or more of the list were cut alike."""
    if not any(isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) for node in view.nodes):
        return
    for owner, fields in changed_keys(view):
        last, change = list(fields.values())[-1]
        if len(fields) < 2 or owner.op != "parameter" or change.kind not in _CUTS or is_shift(change):
            continue
        others = [node for function in _neighbours(view) for node in walk(function)]
        named = {node.value for node in view.nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        listed = [key for keys in _lists(others) if fields.keys() <= keys for key in sorted(keys - named - _DERIVED)]
        for extra in dict.fromkeys(listed):
            field = Argument(view.catalogue.role_of(extra) or "", extra, owner, last.node)
            if is_per_row(field) and not any(_stores(node, extra) for node in others):
                yield LeftOut(field, tuple(argument for argument, _ in fields.values()), change)


def _neighbours(view: View) -> list[ast.AST]:
    """The other methods of the class, or else the other functions of the file that are read at all."""
    owned = view.function.owner is not None
    found = view.methods if owned else [other.function.node for other in view.siblings]
    return [node for node in found if node is not view.function.node]


def _lists(nodes: Iterable[ast.AST]) -> Iterator[frozenset[str]]:
    """The lists of keys that a loop goes through."""
    for node in nodes:
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple | ast.List):
            keys = [item.value for item in node.iter.elts if isinstance(item, ast.Constant)]
            if len(keys) == len(node.iter.elts):
                yield frozenset(key for key in keys if isinstance(key, str))


def _stores(node: ast.AST, key: str) -> bool:
    """Whether a node makes the key: then there need be none before."""
    match node:
        case ast.Subscript(slice=ast.Constant(value=value), ctx=ast.Store()):
            return bool(value == key)
        case ast.Dict(keys=keys):
            return any(isinstance(at, ast.Constant) and at.value == key for at in keys)
        case ast.keyword(arg=name):
            return name == key
    return False
