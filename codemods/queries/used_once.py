"""Whether a display may change without changing what else is made of it."""

import ast

from shapecheck.codemods.view import View

_OF_ANY_ORDER = frozenset({"max", "min", "sum", "shape", "dtype", "device"})


def used_once(view: View, display: ast.expr) -> bool:
    """Whether a display serves one purpose: where it is part of a value with a name, that is read once at most.

    Its maximum and sum do not count: they are the same in any order.
    """
    apart = {node.value for node in view.nodes if isinstance(node, ast.Attribute) and node.attr in _OF_ANY_ORDER}
    for node in view.nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and display in set(ast.walk(node)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            read = [one for one in view.nodes if isinstance(one, ast.Name) and one.id in names and one not in apart]
            return len(names) == len(targets) and sum(isinstance(one.ctx, ast.Load) for one in read) <= 1
    return True
