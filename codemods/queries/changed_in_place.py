"""Values that an unknown call may have changed in place."""

import ast

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.view import View


def may_be_changed(view: View, term: Term) -> bool:
    """Whether the value, or a copy of it, is given to a call whose result is dropped: such a call works by what it
    changes."""
    same = plain(term)
    statements = {node.value for node in view.nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)}
    return any(
        call.node in statements and any(given is not None and plain(given) is same for given in call.args)
        for call in view.calls
    )
