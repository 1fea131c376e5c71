"""Whether code that a fix writes means, at its new place, what it means where it was read."""

import ast
from collections.abc import Iterator, Sequence

from shapecheck.codemods.engine.events import Call, Return
from shapecheck.codemods.engine.module import Function, FunctionNode
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.view import View


def reads(view: View, at: ast.AST, node: ast.AST, term: Term) -> bool:
    """Whether `node`, a variable or an attribute or key of one, gives `term` on every path to the call `at`."""
    scopes = list(_names(view.function, at))
    return bool(scopes) and all(_gives(view, at, names, node, term) for names in scopes)


def _names(function: Function, at: ast.AST) -> Iterator[dict[str, Term]]:
    """The names in scope each time a call or return is reached: a loop over a display runs it several times."""
    for event in function.events:
        if isinstance(event, Call | Return) and event.node is at:
            yield event.names
    for nested in function.nested:
        yield from _names(nested, at)


def _gives(view: View, at: ast.AST, names: dict[str, Term], node: ast.AST, term: Term) -> bool:
    match node:
        case ast.Name(id=name):
            return names.get(name) is term and _is_bound(term) and _is_settled(view, at, name)
        case ast.Attribute(value=base, attr=attr):
            same = term.op == "attr" and term.args[1] == attr
        case ast.Subscript(value=base, slice=ast.Constant(value=str(key))):
            same = term.op == "item" and term.args[1].is_const(key)
        case _:
            return False
    written = any(binding.target == ast.unparse(node) for binding in view.bindings)
    return same and not written and _gives(view, at, names, base, term.args[0])


def _is_bound(term: Term) -> bool:
    """Whether a name with this value is bound on every path: no branch is without, no loop of no rounds."""
    if term.op == "phi":
        return _is_bound(term.args[1]) and _is_bound(term.args[2])
    return term.op not in {"unbound", "last_round"}


def _is_settled(view: View, at: ast.AST, name: str) -> bool:
    """Whether the names in scope are certain: no `:=` may be skipped, nothing is bound again before a function runs."""
    bound = list(bindings_of(view.nodes, name))
    if any(isinstance(node, ast.NamedExpr) for node in bound):
        return False
    later = any(
        isinstance(node, ast.Lambda | FunctionNode) and node is not view.function.node and at in set(ast.walk(node))
        for node in view.nodes
    )
    return not later or (len(bound) == 1 and _place(bound[0]) < _place(at))


def _place(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def bindings_of(nodes: Sequence[ast.AST], name: str) -> Iterator[ast.AST]:
    """The nodes that bind a name: parameters, targets, imports and definitions."""
    for node in nodes:
        match node:
            case ast.NamedExpr(target=ast.Name(id=bound)) | ast.arg(arg=bound):
                pass
            case ast.Name(id=bound, ctx=ast.Store()):
                pass
            case ast.alias(name=path, asname=other):
                bound = other or path.partition(".")[0]
            case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound) | ast.ClassDef(name=bound):
                pass
            case _:
                continue
        if bound == name:
            yield node


def module_name(view: View, path: str) -> str | None:
    """The name that stands for an imported module throughout the function, such as `torch`; None if there is none."""
    names = (name for name, imported in view.module.imports.items() if imported == path)
    return next((name for name in names if not any(bindings_of(view.nodes, name))), None)


def reached_once(view: View, at: ast.AST) -> bool:
    """Whether a call or return was reached with one set of values, not for each item of a display."""
    return sum(1 for _ in _names(view.function, at)) == 1


def near(view: View, node: ast.AST) -> ast.AST | None:
    """A call within a node, or else the innermost call or return around it: where to ask what is in scope there."""
    events = [event.node for event in view.function.events if isinstance(event, Call | Return)]
    below = set(ast.walk(node))
    inner = next((event for event in events if event in below), None)
    around = [event for event in events if node in set(ast.walk(event))]
    return inner or min(around, key=lambda event: len(list(ast.walk(event))), default=None)


def value_at(view: View, at: ast.AST, name: str) -> Term | None:
    """The value of a name at a call or return; None if it has none, or several."""
    found = {names.get(name) for names in _names(view.function, at)}
    return found.pop() if len(found) == 1 else None
