"""An annotation computes with an axis that no argument binds.

### What it does
Reports symbols that occur only inside expressions such as `"B+1"` or `"2*N"` of a function that jaxtyping itself checks
(`@jaxtyped`): no argument has a plain axis of that name, or only a later one has. Under `@contract` an expression in one
symbol binds it, so there only products and sums of several unbound symbols are reported.

### Why is this bad?
jaxtyping evaluates such an expression when it reaches the parameter; a symbol that has no value yet raises on every call,
right or wrong.

### Example
```python
@jaxtyped(typechecker=beartype)
def attend(cu_seqlens: Int32[Tensor, "B+1"], lens: Int32[Tensor, "B"]): ...
```

### Use instead
```python
@jaxtyped(typechecker=beartype)
def attend(lens: Int32[Tensor, "B"], cu_seqlens: Int32[Tensor, "B+1"]): ...
```

### Fix safety
No fix.

### References
- [jaxtyping: array annotations](https://docs.kidger.site/jaxtyping/api/array/)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.findings import Finding
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL603."""
    own = view.own_signature
    if own is None or not own.enforced:
        return
    bound: set[str] = set()
    anywhere = {dim for one in own.parameters for dim in one.dims or () if dim.isidentifier()}
    for parameter in own.parameters:
        for dim in parameter.dims or ():
            if dim.isidentifier():
                bound.add(dim)
                continue
            symbols = _symbols(dim)
            known = bound if own.enforced == "jaxtyped" else anywhere
            missing = symbols - known
            if missing and (own.enforced == "jaxtyped" or len(missing) > 1):
                name = min(missing)
                later = name in anywhere
                yield view.finding(
                    RULE,
                    view.function.parameters[parameter.name].node or view.function.node,
                    f"`{parameter.name}` has the axis `{dim}`, but no argument "
                    + (
                        f"before it binds `{name}`: move the one with a plain axis `{name}` in front"
                        if later
                        else f"has a plain axis `{name}`, so nothing says how long it is"
                    ),
                )
                return


def _symbols(dim: str) -> set[str]:
    """The names in an expression; empty for everything that is none (`...`, `*batch`, `#c`, `_`, `{n}`)."""
    try:
        tree = ast.parse(dim, mode="eval")
    except SyntaxError:
        return set()
    if not isinstance(tree.body, ast.BinOp):
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


_HEAD = "from beartype import beartype\nfrom jaxtyping import Float, Int32, jaxtyped\nfrom shapecheck import contract\nfrom torch import Tensor\n\n\n"

RULE = Rule(
    "VL603",
    "unbound-axis",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD
        + '@jaxtyped(typechecker=beartype)\ndef f(lens: Int32[Tensor, "B"], cu_seqlens: Int32[Tensor, "B+1"]) -> None: ...\n',
        _HEAD + '@contract\ndef f(x: Float[Tensor, "S C"], cu_seqlens: Int32[Tensor, "B+1"]) -> None: ...\n',
        _HEAD + 'def f(cu_seqlens: Int32[Tensor, "B+1"]) -> None: ...\n',
    ),
    invalid=(
        Invalid(
            _HEAD
            + '@jaxtyped(typechecker=beartype)\ndef f(cu_seqlens: Int32[Tensor, "B+1"], lens: Int32[Tensor, "B"]) -> None: ...\n',
            rows=(8,),
        ),
        Invalid(
            _HEAD + '@contract\ndef f(x: Float[Tensor, "T*H C"], cu_seqlens: Int32[Tensor, "B+1"]) -> None: ...\n',
            rows=(8,),
        ),
    ),
)
