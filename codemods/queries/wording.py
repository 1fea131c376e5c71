"""How messages name values: as the author wrote them, where that is short."""

import ast

from shapecheck.codemods.engine.terms import Term

_LONGEST = 48


def written(node: ast.AST | None) -> str:
    """`` `x` ``, or "a value" where the expression is long or unknown."""
    if isinstance(node, ast.arg):
        return f"`{node.arg}`"
    if isinstance(node, ast.expr):
        text = ast.unparse(node)
        if len(text) <= _LONGEST and "\n" not in text:
            return f"`{text}`"
    return "a value"


def value(term: Term) -> str:
    """The expression that made a value."""
    return written(term.node)
