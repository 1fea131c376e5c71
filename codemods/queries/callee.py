"""The definition of a callee, where it is in the same file."""

import ast

from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.engine.module import FunctionNode, Module
from shapecheck.codemods.engine.terms import Term


def definition_of(module: Module, call: Call) -> FunctionNode | None:
    """A function, a method of the same class, or the `forward` of a layer that `__init__` made; None if unknown."""
    return _definition(module, call.callee)


def _definition(module: Module, callee: Term) -> FunctionNode | None:
    match callee.op:
        case "global":
            return module.function(callee.args[0])
        case "attr" if callee.args[0].op == "self":
            owner = module.class_of(callee.args[0].args[0])
            return None if owner is None else module.method(owner, callee.args[1])
        case "call":
            owner = module.class_of(callee.args[0])
            return None if owner is None else module.method(owner, "forward")
        case "elem":
            layers = callee.args[0]
            if layers.op == "call" and layers.args[0].endswith("ModuleList") and len(layers.args) == 2:
                layers = layers.args[1]
            return _definition(module, layers.args[0]) if layers.op in {"each", "list"} and layers.args else None
    return None


def parameters_of(node: FunctionNode) -> list[str]:
    """The names that a call may give, `self` left out."""
    names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
    return [*(names[1:] if names[:1] in (["self"], ["cls"]) else names), *(arg.arg for arg in node.args.kwonlyargs)]


def takes_keyword(node: FunctionNode, name: str) -> bool:
    """Whether a function may be given an argument by that name."""
    args = node.args
    if any(arg.arg == name for arg in args.posonlyargs):
        return False
    return args.kwarg is not None or any(arg.arg == name for arg in (*args.args, *args.kwonlyargs))


def optional(node: FunctionNode) -> set[str]:
    """The parameters that are None by default."""
    positional = [*node.args.posonlyargs, *node.args.args]
    defaults = [*zip(reversed(positional), reversed(node.args.defaults), strict=False)]
    defaults += [(arg, given) for arg, given in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if given]
    return {arg.arg for arg, given in defaults if isinstance(given, ast.Constant) and given.value is None}
