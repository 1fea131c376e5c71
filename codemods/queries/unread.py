"""Packed metadata that a function takes or computes and never reads."""

import ast

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.view import View

_ROLES = {"bounds", "padded", "max", "tags", "object"}


def unread(view: View) -> dict[str, ast.AST]:
    """Metadata by name, each with its parameter or binding, that nothing in the function reads."""
    node = view.function.node
    arguments = node.args
    made: dict[str, ast.AST] = {}
    values: dict[str, Term] = {}
    for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if kind_by_name(view, arg.arg) in _ROLES:
            made[arg.arg], values[arg.arg] = arg, view.function.parameters[arg.arg]
    for binding in view.bindings:
        if (
            binding.target not in made
            and binding.target.isidentifier()
            and kind_by_name(view, binding.target) in _ROLES
        ):
            made[binding.target], values[binding.target] = binding.node, binding.value
    handed = {id(term) for call in view.calls for term in (*call.args, *call.kwargs.values())}
    made = {name: at for name, at in made.items() if id(values[name]) not in handed}
    if not made:
        return made
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id in {"locals", "kwargs"}:
            return {}
        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Store):
            made.pop(inner.id, None)  # `del` says that it is ignored on purpose
    return made


def kind_by_name(view: View, name: str) -> str:
    """`bounds`, `max`, `tags` and so on for the name of metadata; `object` for packed parameters."""
    return "object" if name == "packed_seq_params" else (view.catalogue.role_of(name) or "").partition("_")[0]
