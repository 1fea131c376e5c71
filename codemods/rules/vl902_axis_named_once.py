"""An axis name occurs only once in a signature.

### What it does
Reports names of axes that occur only once in the [jaxtyping](https://docs.kidger.site/jaxtyping/) annotations of a function.
Off by default: a name that occurs once is normal, it says what the axis is.

### Why is this bad?
Sometimes it is a misspelling of another name, and then nothing is checked. Run this rule once over a new code base.

### Example
```python
def route(x: Float[Tensor, "S C"], tags: Int[Tensor, "s"]): ...
```

### Use instead
```python
def route(x: Float[Tensor, "S C"], tags: Int[Tensor, "S"]): ...
```

### Fix safety
No fix.

### References
- [jaxtyping: array annotations](https://docs.kidger.site/jaxtyping/api/array/)
"""

import re
from collections import Counter
from collections.abc import Iterator

from shapecheck.codemods.findings import Finding
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_NAME = re.compile(r"[A-Za-z]\w*")


def check(view: View) -> Iterator[Finding]:
    """VL902."""
    own = view.own_signature
    if own is None:
        return
    dims = [dim for one in own.parameters for dim in one.dims or ()] + list(own.result or ())
    counts = Counter(name for dim in dims for name in _NAME.findall(dim))
    for parameter in own.parameters:
        for dim in parameter.dims or ():
            if dim.isidentifier() and counts[dim] == 1 and not dim.startswith("_"):
                yield view.finding(
                    RULE,
                    view.function.parameters[parameter.name].node or view.function.node,
                    f"the axis `{dim}` of `{parameter.name}` occurs nowhere else in the signature, so nothing is checked about it",
                )


_HEAD = "from jaxtyping import Float, Int\nfrom torch import Tensor\n\n\n"

RULE = Rule(
    "VL902",
    "axis-named-once",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + 'def f(x: Float[Tensor, "S"], tags: Int[Tensor, "S"]) -> None: ...\n',
        _HEAD + 'def f(x: Float[Tensor, "_ C"], w: Int[Tensor, "C"]) -> None: ...\n',
    ),
    invalid=(
        Invalid(_HEAD + 'def f(x: Float[Tensor, "S"], tags: Int[Tensor, "s"]) -> None: ...\n', rows=(5, 5)),
        Invalid(_HEAD + 'def f(x: Float[Tensor, "S C"], w: Int[Tensor, "C"]) -> None: ...\n', rows=(5,)),
    ),
)
