"""What the annotated signature that a call runs says about two of its arguments."""

import ast

from shapecheck.codemods.contracts import Parameter, Signature
from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.view import View


def apart(view: View, call: Call | None, one: ast.AST, other: ast.AST) -> bool:
    """Whether the callee's annotations give two arguments no axis in common, so that they describe different rows."""
    signature = None if call is None else view.signature_of(call)
    if call is None or signature is None:
        return False
    first, second = (_dims(_parameter(signature, call, node)) for node in (one, other))
    return bool(first and second) and first.isdisjoint(second)


def _parameter(signature: Signature, call: Call, node: ast.AST) -> Parameter | None:
    keyword = next((given.arg for given in call.node.keywords if given.value is node), None)
    if keyword is not None:
        return next((one for one in signature.parameters if one.name == keyword), None)
    if any(isinstance(given, ast.Starred) for given in call.node.args):
        return None
    at = next((at for at, given in enumerate(call.node.args) if given is node), None)
    positional = [one for one in signature.parameters if one.positional]
    return positional[at] if at is not None and at < len(positional) else None


def _dims(parameter: Parameter | None) -> frozenset[str]:
    """The named axes; nothing where one may stand for several or is an expression or a size."""
    dims = () if parameter is None or parameter.dims is None else parameter.dims
    return frozenset(dims) if all(dim.isidentifier() for dim in dims) else frozenset()
