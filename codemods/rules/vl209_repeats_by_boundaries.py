"""Values are repeated by boundaries instead of by lengths.

### What it does
Finds `repeat_interleave` (numpy: `repeat`) whose counts are cumulative boundaries, or all of them but the first or last.

### Why is this bad?
The counts say how often each value occurs, which is the length of its segment. With cumulative counts the result is far longer than
the rows, and after it is cut to their number nearly all tokens have the first segments' values.

### Example
```python
seq_idx = torch.repeat_interleave(torch.arange(n), cu_seqlens[1:])
```

### Use instead
```python
seq_idx = torch.repeat_interleave(torch.arange(n), cu_seqlens.diff())
```

### Fix safety
Unsafe: the tags change, which is the purpose.

### References
- [torch.repeat_interleave](https://docs.pytorch.org/docs/stable/generated/torch.repeat_interleave.html)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding, Fix, Replace
from shapecheck.codemods.queries.named_values import role_of_value
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_BOUNDS = {"bounds", "bounds_q", "bounds_k", "padded", "padded_q", "padded_k"}


def check(view: View) -> Iterator[Finding]:
    """VL209."""
    if "repeat_interleave" not in view.module.pool.by_op:
        return
    for call in view.calls:
        if call.result.op != "repeat_interleave":
            continue
        counts = call.result.args[1]
        node = _counts_node(call)
        boundaries = _boundaries(view, counts)
        if boundaries is None or node is None:
            continue
        yield view.finding(
            RULE,
            node,
            f"the counts come from {named(view, boundaries)}, which is cumulative; values repeat by the length of their segment: "
            "use the differences of the boundaries",
            notes=[(boundaries.node, "cumulative boundaries")],
            fix=_fix(view, call, node, boundaries),
        )


def _counts_node(call: Call) -> ast.expr | None:
    keyword = call.arg_node(None, "repeats")
    if keyword is not None:
        return keyword
    at = 1 if call.receiver is None else 0  # x.repeat_interleave(counts)
    return call.node.args[at] if len(call.node.args) > at else None


def _boundaries(view: View, counts: Term) -> Term | None:
    inner = plain(counts)
    cut = inner.op == "item" and inner.args[1].op == "slice"
    if cut:
        inner = plain(inner.args[0])
    bounds = bounds_of(inner)
    if bounds is not None:
        return inner if bounds.kind in {"lens", "mask"} and bounds.divisor is None else None
    # A name alone may lie; all of it but the first or last is what one takes of boundaries.
    return inner if cut and role_of_value(view, inner) in _BOUNDS else None


def _fix(view: View, call: Call, node: ast.expr, boundaries: Term) -> Fix | None:
    """`b[1:]` becomes `b.diff()`, or `np.diff(b)` in a call of `np.repeat`; casts of tensors around it stay."""
    known = bounds_of(boundaries)
    if known is not None and known.zero is not True:
        return None
    numpy = call.path.startswith("numpy")
    while (
        not numpy
        and isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"to", "long", "int", "cpu"}
    ):
        node = node.func.value
    match node:
        case ast.Subscript(
            value=ast.Name() | ast.Attribute() | ast.Subscript() | ast.Call() as base,
            slice=ast.Slice(lower=ast.Constant(value=1), upper=None, step=None),
        ):
            code = view.source.code(base)
            if not numpy:
                code = f"{code}.diff()"
            elif isinstance(call.node.func, ast.Attribute):
                code = f"{view.source.code(call.node.func.value)}.diff({code})"
            else:
                return None  # `from numpy import repeat`
            return view.fix(f"Replace with `{code}`", Replace(view.source.span(node), code))
    return None


_HEAD = "import torch\n\n\n"

RULE = Rule(
    "VL209",
    "repeats-by-boundaries",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD
        + "def tags(cu_seqlens, n):\n    return torch.repeat_interleave(torch.arange(n), cu_seqlens[1:] - cu_seqlens[:-1])\n",
        # The boundaries are repeated, not counted by.
        _HEAD + "def starts(cu_seqlens):\n    return torch.repeat_interleave(cu_seqlens[:-1], cu_seqlens.diff())\n",
        _HEAD + "def tags(lens):\n    return torch.repeat_interleave(torch.arange(len(lens)), lens)\n",
    ),
    invalid=(
        Invalid(
            _HEAD
            + "def tags(cu_seqlens, n):\n    return torch.repeat_interleave(torch.arange(n), cu_seqlens[1:].long())\n",
            rows=(5,),
            fixed=_HEAD
            + "def tags(cu_seqlens, n):\n    return torch.repeat_interleave(torch.arange(n), cu_seqlens.diff().long())\n",
        ),
        Invalid(
            "import numpy as np\n\n\n"
            "def tags(lens, n_labels):\n"
            "    ends = np.cumsum(lens)\n"
            "    segment_ids = np.repeat(np.arange(len(lens)), ends)\n"
            "    return segment_ids[:n_labels]\n",
            rows=(6,),
        ),
    ),
    fixable=True,
)
