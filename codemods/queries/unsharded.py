"""Per-token keys left whole in a batch that a function cuts to the piece of one rank, and that its callers use."""

import ast
import re
from collections.abc import Iterator

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.engine.walk import walk
from shapecheck.codemods.queries.callee import definition_of
from shapecheck.codemods.queries.shards import is_of_rank, is_trim
from shapecheck.codemods.queries.siblings import LeftOut, changed_keys, is_per_row
from shapecheck.codemods.view import Argument, View

# What attention may need of all ranks.
_MAY_BE_WHOLE = {"mask", "positions"}
_GATHERS = re.compile(r"gather|all_to_all|all2all", re.IGNORECASE)


def not_cut(view: View) -> Iterator[LeftOut]:
    """The first key that was left out, where two or more per-token keys of the returned batch were cut by rank."""
    if not any(isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) for node in view.nodes):
        return
    for owner, fields in changed_keys(view):
        cut = [argument for argument, change in fields.values() if is_of_rank(change) and not is_trim(change)]
        if len(cut) < 2 or owner.op != "parameter" or not _returns(view, owner):
            continue
        last, change = list(fields.values())[-1]
        for key in _read_by_callers(view):
            field = Argument(view.catalogue.role_of(key) or "", key, owner, last.node)
            if key not in fields and key not in _texts(view) and is_per_row(field) and not _may_be_whole(field):
                yield LeftOut(field, tuple(cut), change)
                break


def _may_be_whole(field: Argument) -> bool:
    return field.role in _MAY_BE_WHOLE and "loss" not in field.name and "response" not in field.name


def _returns(view: View, owner: Term) -> bool:
    """Whether the function returns the batch, or a copy of it."""
    returned = [found.value for found in view.returns]
    return len(returned) == 1 and (returned[0] is owner or (returned[0].op == "copy" and returned[0].args[0] is owner))


def _read_by_callers(view: View) -> Iterator[str]:
    """The keys that callers in this file read from the batch that they get back."""
    name = view.function.node.name
    for node in view.module.definitions(lambda text: f"{name}(" in text):
        other = view.module.interpret(node)
        calls = [call for call in other.calls if definition_of(view.module, call) is view.function.node]
        if node is view.function.node or not calls or any(_GATHERS.search(call.name) for call in other.calls):
            continue
        names = {binding.target for binding in other.bindings if any(binding.value_node is call.node for call in calls)}
        inner = [below for below in walk(node) if isinstance(below, ast.Subscript)]
        stored = {key for below in inner if (key := _key(below, names, ast.Store)) is not None}
        for below in sorted(inner, key=lambda found: (found.lineno, found.col_offset)):
            key = _key(below, names, ast.Load)
            if key is not None and key not in stored:
                yield key


def _key(node: ast.AST, names: set[str], context: type[ast.expr_context]) -> str | None:
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key)), ctx=found):
            return key if name in names and isinstance(found, context) else None
    return None


def _texts(view: View) -> set[str]:
    return {node.value for node in view.nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
