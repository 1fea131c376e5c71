"""Tokens look up their segment with a left-sided search in the boundaries.

### What it does
Finds `searchsorted` or `bucketize` of consecutive token numbers in boundaries without `right=True` (numpy: `side="right"`).

### Why is this bad?
Segment i holds the tokens from `cu_seqlens[i]` up to, but without, `cu_seqlens[i + 1]`. The left-sided search gives the first token of
each segment to the segment before it, and token 0 to segment -1. Masks built from such tags leak one row across each boundary.

### Example
```python
segment_ids = torch.searchsorted(cu_seqlens, torch.arange(total)) - 1
```

### Use instead
```python
segment_ids = torch.searchsorted(cu_seqlens, torch.arange(total), right=True) - 1
```

### Fix safety
Unsafe: the tags change, which is the purpose.

### References
- [torch.searchsorted](https://docs.pytorch.org/docs/stable/generated/torch.searchsorted.html)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import AddKeyword, Finding, Fix, Replace
from shapecheck.codemods.queries.named_values import role_of_value
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.queries.rearranged import within
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_LOOKUPS = {"searchsorted", "bucketize"}


def check(view: View) -> Iterator[Finding]:
    """VL208."""
    if "searchsorted" not in view.module.pool.by_op:
        return
    for call in view.calls:
        lookup = call.result
        if call.name not in _LOOKUPS or lookup.op != "searchsorted" or not within(view, lookup):
            continue
        edges, tokens, right = lookup.args
        if (
            not (right.is_const(False) or right.is_const("left"))
            or not _counts_tokens(tokens)
            or not _are_boundaries(view, edges)
        ):
            continue
        numpy = call.path.startswith("numpy")
        name, code = ("side", '"right"') if numpy else ("right", "True")
        yield view.finding(
            RULE,
            call.node,
            f"the left-sided search in {named(view, edges)} gives the first token of each segment to the segment before it; search "
            f"with `{name}={code}`",
            fix=_fix(view, call, name, code),
        )


def _fix(view: View, call: Call, name: str, code: str) -> Fix | None:
    """Says `right` where the call says `left`; a call that says neither gets the keyword."""
    given = [keyword.value for keyword in call.node.keywords if keyword.arg in {"right", "side"}]
    if name == "side" and len(call.node.args) > 2:
        given.append(call.node.args[2])
    title = f"Search with `{name}={code}`"
    if not given:
        return view.fix(title, AddKeyword(view.source.span(call.node), name, code))
    if len(given) > 1 or not isinstance(given[0], ast.Constant):
        return None
    right = "True" if given[0].value is False else view.source.code(given[0]).replace("left", "right")
    return view.fix(title, Replace(view.source.span(given[0]), right))


def _counts_tokens(term: Term) -> bool:
    term = plain(term)
    while term.op == "view":
        term = term.args[1]
    return term.op == "arange" and term.args[0].is_const(0) and term.args[2].is_const(1)


def _are_boundaries(view: View, edges: Term) -> bool:
    """Boundaries, with or without the first or last one."""
    inner = plain(edges)
    if inner.op == "item" and inner.args[1].op == "slice":
        inner = plain(inner.args[0])
    bounds = bounds_of(inner)
    if bounds is not None:
        return bounds.divisor is None and bounds.kind in {"lens", "mask"}
    return role_of_value(view, inner) in {"bounds", "bounds_q", "bounds_k", "padded", "padded_q", "padded_k"}


_HEAD = "import torch\n\n\n"

RULE = Rule(
    "VL208",
    "left-sided-segment-lookup",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def tags(cu_seqlens, total):\n"
        "    return torch.searchsorted(cu_seqlens, torch.arange(total), right=True) - 1\n",
        # The first row behind each token.
        _HEAD
        + "def tags(cu_seqlens, total):\n    return torch.searchsorted(cu_seqlens, torch.arange(total) + 1) - 1\n",
        # Which segment starts where: boundaries looked up in boundaries.
        _HEAD + "def find(cu_seqlens, starts):\n    return torch.searchsorted(cu_seqlens, starts)\n",
        # Sorted values that are no boundaries.
        _HEAD + "def bins(expert_ids, experts):\n"
        "    order = torch.sort(expert_ids).values\n"
        "    return torch.searchsorted(order, torch.arange(experts))\n",
    ),
    invalid=(
        Invalid(
            _HEAD
            + "def tags(cu_seqlens, total):\n    return torch.searchsorted(cu_seqlens, torch.arange(total)) - 1\n",
            rows=(5,),
            fixed=_HEAD + "def tags(cu_seqlens, total):\n"
            "    return torch.searchsorted(cu_seqlens, torch.arange(total), right=True) - 1\n",
        ),
        Invalid(
            "import numpy as np\n\n\n"
            "def tags(lens):\n"
            "    ends = np.cumsum(lens)\n"
            "    return np.searchsorted(ends, np.arange(ends[-1]), side='left')\n",
            rows=(6,),
            fixed="import numpy as np\n\n\n"
            "def tags(lens):\n"
            "    ends = np.cumsum(lens)\n"
            "    return np.searchsorted(ends, np.arange(ends[-1]), side='right')\n",
        ),
        Invalid(
            _HEAD + "def tags(lens, total):\n"
            "    cu_seqlens = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
            "    return torch.bucketize(torch.arange(total), cu_seqlens[1:])\n",
            rows=(6,),
            fixed=_HEAD + "def tags(lens, total):\n"
            "    cu_seqlens = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
            "    return torch.bucketize(torch.arange(total), cu_seqlens[1:], right=True)\n",
        ),
    ),
    fixable=True,
)
