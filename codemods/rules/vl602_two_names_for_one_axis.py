"""A signature gives two names to one axis.

### What it does
Reports a function with [jaxtyping](https://docs.kidger.site/jaxtyping/) annotations that passes two of its parameters on to
another annotated function, where the axes have one name, while its own signature calls them by two.

### Why is this bad?
The outer contract is weaker than what the inner one needs: a call that the outer signature accepts fails further in, or, where
only the outer one is enforced, not at all.

### Example
```python
def block(x: Float[Tensor, "S C"], tags: Int[Tensor, "T"]):
    return route(x, tags)  # route(x: "S C", tags: "S")
```

### Use instead
```python
def block(x: Float[Tensor, "S C"], tags: Int[Tensor, "S"]):
    return route(x, tags)
```

### Fix safety
No fix: which of the two names is meant is the author's decision.

### References
- [jaxtyping: array annotations](https://docs.kidger.site/jaxtyping/api/array/)
"""

from collections.abc import Iterator

from shapecheck.codemods.contracts import Parameter, Signature
from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL602."""
    own = view.own_signature
    if own is None:
        return
    outer = {view.function.parameters[one.name]: one for one in own.parameters if one.name in view.function.parameters}
    reported: set[frozenset[str]] = set()
    for call in view.calls:
        inner = view.signature_of(call)
        if inner is None:
            continue
        names: dict[str, tuple[str, str]] = {}  # inner dim -> (outer dim, parameter that has it)
        for term, parameter in _arguments(call, inner):
            mine = outer.get(term)
            if mine is None or mine.dims is None or parameter.dims is None or len(mine.dims) != len(parameter.dims):
                continue
            for inside, outside in zip(parameter.dims, mine.dims, strict=True):
                if not (inside.isidentifier() and outside.isidentifier()) or "_" in {inside, outside}:
                    continue
                known = names.setdefault(inside, (outside, mine.name))
                pair = frozenset({known[0], outside})
                if known[0] != outside and pair not in reported:
                    reported.add(pair)
                    yield view.finding(
                        RULE,
                        call.node,
                        f"`{known[1]}` and `{mine.name}` share the axis `{inside}` of `{inner.called}`, but this signature calls "
                        f"it `{known[0]}` and `{outside}`; give both the same name",
                        notes=[(view.function.parameters[name].node, name) for name in (known[1], mine.name)],
                    )


def _arguments(call: Call, signature: Signature) -> Iterator[tuple[Term, Parameter]]:
    positional = [parameter for parameter in signature.parameters if parameter.positional]
    for parameter, term in zip(positional, call.args, strict=False):
        if term is not None:
            yield term, parameter
    for parameter in signature.parameters:
        if parameter.name in call.kwargs:
            yield call.kwargs[parameter.name], parameter


_HEAD = """from jaxtyping import Float, Int
from torch import Tensor


def route(x: Float[Tensor, "S C"], tags: Int[Tensor, "S"]) -> Float[Tensor, "S C"]:
    return x[tags]


"""

RULE = Rule(
    "VL602",
    "two-names-for-one-axis",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD
        + 'def block(x: Float[Tensor, "N D"], tags: Int[Tensor, "N"]) -> Float[Tensor, "N D"]:\n    return route(x, tags)\n',
        _HEAD + 'def block(x: Float[Tensor, "S C"], tags: Int[Tensor, "T"]) -> Float[Tensor, "S C"]:\n'
        "    return route(x, tags[: len(x)])\n",
    ),
    invalid=(
        Invalid(
            _HEAD
            + 'def block(x: Float[Tensor, "S C"], tags: Int[Tensor, "T"]) -> Float[Tensor, "S C"]:\n    return route(x, tags)\n',
            rows=(10,),
        ),
        Invalid(
            _HEAD + 'def block(x: Float[Tensor, "rows C"], tags: Int[Tensor, "tokens"]) -> Float[Tensor, "rows C"]:\n'
            "    return route(x, tags=tags)\n",
            rows=(10,),
        ),
    ),
)
