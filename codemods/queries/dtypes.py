"""The integer type of a value, where it is certain. `int64` stands for "what Python integers become": never int32."""

import ast

from shapecheck.codemods.engine.describe.lengths import lens_of
from shapecheck.codemods.engine.terms import Term

_KEEPS = {"unique", "pad", "item", "flip", "roll", "diff", "sorted"}
_COUNTS = {"shape", "len", "numel"}


def dtype_of(term: Term) -> str | None:
    """`int32`, `int64`, `float` or another name; None if unknown."""
    match term.op:
        case "cast":
            return None if term.args[1] == "?" else str(term.args[1])
        case "typed_like" | "full_like":
            return dtype_of(term.args[1] if term.op == "typed_like" else term.args[0])
        case "moved":
            return dtype_of(term.args[0]) if _is_device(term.args[1]) else None
        case "copy" | "store" | "filled":
            return dtype_of(term.args[0])
        case "host":
            # tolist() of int32 gives Python integers.
            return "int64" if dtype_of(term.args[0]) == "int64" else None
        case "view" | "elementwise":
            return dtype_of(term.args[1])
        case "tensor":
            return dtype_of(term.args[0]) if _is_array(term.args[0]) else _of_list(term.args[0])
        case "cat":
            return _concatenated(term)
        case "cumsum":
            return "int64" if _made_by(term) != "accumulate" else _of_list(term)
        case "arange":
            return "int64" if _callee(term) == "torch.arange" else None
        case "full":
            return _filled(term)
        case "Div":
            return "float"
        case "mask_bounds":
            return "int32"
        case "nonzero" | "argsort" | "searchsorted" | "mask_indices":
            return "int64"
        case "Mult" | "Add" | "Sub" | "FloorDiv":
            left, right = term.args
            given = dtype_of(left)
            is_scalar = left.op == "item" and left.args[1].op != "slice"
            if right.op in _COUNTS or type(right.value) is int or (given == "int64" and not is_scalar):
                return given
            return None
        case op if op in _KEEPS:
            return dtype_of(term.args[0])
    return None


def _callee(term: Term) -> str:
    return ast.unparse(term.node.func) if isinstance(term.node, ast.Call) else ""


def _made_by(term: Term) -> str:
    return _callee(term).rpartition(".")[2]


def _is_device(term: Term) -> bool:
    """Whether the argument of `.to(x)` is a device by its name; a tensor would pass on its type as well."""
    if term.op in {"parameter", "global"}:
        return "device" in str(term.args[0])
    return term.op == "attr" and "device" in str(term.args[1])


def _is_array(term: Term) -> bool:
    """Whether a value is no Python list."""
    return term.op in {
        "cast",
        "typed_like",
        "moved",
        "view",
        "full",
        "pad",
        "host",
        "copy",
        "store",
        "filled",
        "diff",
    } or (term.op in {"cat", "cumsum"} and _made_by(term) != "accumulate")


def _of_list(term: Term) -> str | None:
    """The type that a list of numbers gets: one Python integer among them is enough to make it no int32."""
    match term.op:
        case "list" | "tuple":
            return "int64" if any(_is_integer(item) for item in term.children()) else None
        case "Add":
            return _of_list(term.args[0]) or _of_list(term.args[1])
        case "running" | "copy" | "star" | "extend" | "append":
            return _of_list(term.args[0])
        case "cat":
            return _of_list(term.args[1]) if term.args[1].op == "list" else None
        case "tensor":
            return _of_list(term.args[0])
        case "cumsum":
            return _of_list(term.args[0])
        case "each":
            lens = lens_of(term)
            return "int64" if lens is not None and lens.kind == "parts" else None
    return None


def _is_integer(term: Term) -> bool:
    if term.op == "star":
        return _of_list(term.args[0]) == "int64"
    return term.op in _COUNTS or type(term.value) is int


def _concatenated(term: Term) -> str | None:
    """Concatenation promotes: one part that is wider makes the whole wider."""
    if term.args[1].op not in {"list", "tuple"}:
        return None
    parts = list(term.args[1].children())
    if _made_by(term) == "insert":
        return dtype_of(parts[-1])
    kinds = [_of_list(part) if part.op in {"list", "tuple"} else dtype_of(part) for part in parts]
    for kind in ("float", "int64"):
        if kind in kinds:
            return kind
    return "int32" if set(kinds) == {"int32"} else None


def _filled(term: Term) -> str | None:
    name = _made_by(term)
    if name in {"zeros", "empty", "ones"}:
        return "float"
    if _callee(term) == "torch.full" and type(term.args[0].value) is int:
        return "int64"
    return None
