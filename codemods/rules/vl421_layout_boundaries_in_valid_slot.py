"""The boundaries of the padded layout are given as those of the valid rows, on one side.

### What it does
Reports calls and metadata objects in which one of `cu_seqlens_q` and `cu_seqlens_kv` is the same array as its padded counterpart, the
other is not, and the valid array of that side was built in the same function.

### Why is this bad?
The kernel takes the padding rows of that side for tokens: queries attend to them, and their outputs are mixed in.

### Example
```python
cu_kv, kv_padded = bounds(kv_lens), bounds(round_up(kv_lens))
out = attention(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_kv=kv_padded, cu_seqlens_q_padded=q_padded, cu_seqlens_kv_padded=kv_padded)
```

### Use instead
```python
out = attention(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_kv=cu_kv, cu_seqlens_q_padded=q_padded, cu_seqlens_kv_padded=kv_padded)
```

### Fix safety
Unsafe: the computed values change, which is the purpose.

### References
- [TransformerEngine: packed sequences with padding](https://github.com/NVIDIA/TransformerEngine)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.events import Binding
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding, Replace
from shapecheck.codemods.queries.grown import grown
from shapecheck.codemods.queries.in_scope import near, reads
from shapecheck.codemods.queries.measured import of_bounds
from shapecheck.codemods.queries.together import Group, groups
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View


def check(view: View) -> Iterator[Finding]:
    """VL421."""
    for group in groups(view):
        get = group.roles.get
        sides = [(get(f"bounds_{side}"), get(f"padded_{side}")) for side in ("q", "k")]
        same = [
            bounds is not None and padded is not None and bounds.term is padded.term and bounds.term.op != "const"
            for bounds, padded in sides
        ]
        if same[0] == same[1] or any(bounds is None for bounds, _ in sides):
            continue
        bounds = sides[0 if same[0] else 1][0]
        valid = None if bounds is None else _valid_counterpart(view, bounds.term)
        if bounds is None or valid is None:
            continue
        yield view.finding(
            RULE,
            bounds.node,
            f"{written(bounds.node)} holds the boundaries of the padded layout; those of the valid rows are `{valid.target}` "
            f"(line {valid.node.lineno}), as on the other side: pass `{valid.target}`",  # type: ignore[attr-defined]
            notes=[(valid.node, "boundaries of the valid rows"), (bounds.term.node, "boundaries of the layout")],
            fix=view.fix(f"Pass `{valid.target}`", Replace(view.source.span(bounds.node), valid.target))
            if _in_scope(view, group, bounds, valid)
            else None,
        )


def _in_scope(view: View, group: Group, bounds: Argument, valid: Binding) -> bool:
    """Whether the one variable holds the boundaries of the layout there, and the other one those of the valid rows."""
    at = near(view, group.node)
    if at is None or not reads(view, at, bounds.node, bounds.term):
        return False
    return reads(view, at, ast.Name(valid.target), valid.value)


def _valid_counterpart(view: View, layout: Term) -> Binding | None:
    """The variable with the boundaries of the lengths that `layout` rounds up."""
    padded = of_bounds(layout)
    for binding in view.bindings:
        if binding.target.isidentifier() and isinstance(binding.node, ast.Assign):
            measured = of_bounds(binding.value)
            if measured.kind != "diff" and grown(padded.lens, measured.lens):
                return binding
    return None


_HEAD = (
    "import torch\n\n\ndef bounds(lens):\n    return torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n\n\n"
    "def f(attend, q, k, v, q_lens, k_lens, a):\n"
    "    cu_q, cu_k = bounds(q_lens), bounds(k_lens)\n"
    "    layout_q, layout_k = bounds((q_lens + a - 1) // a * a), bounds((k_lens + a - 1) // a * a)\n"
)
_TAIL = ", cu_seqlens_q_padded=layout_q, cu_seqlens_kv_padded=layout_k)\n"

RULE = Rule(
    "VL421",
    "layout-boundaries-in-valid-slot",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "    return attend(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_kv=cu_k" + _TAIL,
        _HEAD + "    return attend(q, k, v, cu_seqlens_q=layout_q, cu_seqlens_kv=layout_k" + _TAIL,
        "def f(attend, q, k, v, p, cu_k):\n"
        "    return attend(q, k, v, cu_seqlens_q=p.cu_seqlens_q, cu_seqlens_kv=cu_k,\n"
        "                  cu_seqlens_q_padded=p.cu_seqlens_q_padded, cu_seqlens_kv_padded=cu_k)\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "    return attend(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_kv=layout_k" + _TAIL,
            rows=(11,),
            fixed=_HEAD + "    return attend(q, k, v, cu_seqlens_q=cu_q, cu_seqlens_kv=cu_k" + _TAIL,
        ),
        Invalid(
            _HEAD + "    return dict(cu_seqlens_q=layout_q, cu_seqlens_kv=cu_k" + _TAIL,
            rows=(11,),
            fixed=_HEAD + "    return dict(cu_seqlens_q=cu_q, cu_seqlens_kv=cu_k" + _TAIL,
        ),
    ),
    fixable=True,
)
