"""Rows are picked at the ends of segments, where the next segment starts.

### What it does
Reports `x[cu_seqlens[1:]]`: rows picked at the boundaries without the first one, which are the ends of the segments. Arrays of
running sums, which have one entry more than there are rows, are left alone.

### Why is this bad?
Boundaries are half-open: segment i has the rows `cu_seqlens[i]` to `cu_seqlens[i + 1] - 1`. The row at an end is the first row
of the next segment, and for the last segment it is out of range, or padding.

### Example
```python
cu_seqlens = F.pad(lens.cumsum(0), (1, 0))
last = hidden[cu_seqlens[1:]]
```

### Use instead
```python
cu_seqlens = F.pad(lens.cumsum(0), (1, 0))
last = hidden[cu_seqlens[1:] - 1]
```

### Fix safety
Unsafe: other rows are picked, which is the purpose.

### References
- [flash-attention: variable-length interface](https://github.com/Dao-AILab/flash-attention)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding, Fix, Replace
from shapecheck.codemods.queries.libraries import library_of
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL190."""
    picks = [pick for term in view.module.pool.by_op.get("item", ()) if (pick := _pick(term)) is not None]
    if not picks:
        return
    here = set(view.nodes)
    also_at_starts = {base for _, base, _, ends, _ in picks if not ends}
    for picked, base, boundaries, ends, index in picks:
        if not ends or base in also_at_starts or index.node not in here or not isinstance(index.node, ast.Subscript):
            continue
        whole = ast.unparse(index.node)
        yield view.finding(
            RULE,
            index.node,
            f"`{whole}` are the ends of the segments{view.line(boundaries.node)}, one behind their last rows: the rows there belong "
            f"to the next segment, and the last one is out of range; use `{whole} - 1`",
            notes=[(boundaries.node, "boundaries, cumulated here")],
            fix=_fix(view, picked),
        )


def _fix(view: View, pick: Term) -> Fix | None:
    """`x[ends]` becomes `x[ends - 1]`: in the index alone, and only where `-` is arithmetic."""
    if not isinstance(pick.node, ast.Subscript) or not isinstance(pick.node.slice, ast.Name | ast.Subscript | ast.Call):
        return None
    index = pick.node.slice
    if library_of(view, index) is None:
        return None
    code = f"{view.source.code(index)} - 1"
    return view.fix(f"Replace with `{ast.unparse(index)} - 1`", Replace(view.source.span(index), code))


def _pick(term: Term) -> tuple[Term, Term, Term, bool, Term] | None:
    """(itself, what is indexed, boundaries, whether at the ends, the index) of `x[cu[1:]]` and `x[cu[:-1]]`."""
    base, index = term.args
    index = plain(index)
    if index.op != "item" or index.args[1].op != "slice":
        return None
    low, high, step = (part.value if part.op == "const" else "?" for part in index.args[1].args)
    if step is not None or (low, high) not in {(1, None), (None, -1), (0, -1)}:
        return None
    boundaries = index.args[0]
    known = bounds_of(boundaries)
    if known is None or known.zero is not True or known.appended or known.divisor is not None or _is_running_sum(base):
        return None
    return term, base, boundaries, low == 1, index


def _is_running_sum(term: Term) -> bool:
    """An array of sums up to each row: it has an entry for the end, and differences of two are sums of segments."""
    return any(inner.op in {"cumsum", "pad", "cat", "running", "store"} for inner in term.walk())


RULE = Rule(
    "VL190",
    "rows-at-exclusive-ends",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef f(x, lens):\n    cu_seqlens = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
        "    return x[cu_seqlens[1:] - 1], x[cu_seqlens[:-1]]\n",
        "import torch\n\n\ndef f(x, lens):\n    cu_seqlens = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
        "    sums = torch.nn.functional.pad(x.cumsum(0), (1, 0))\n    return sums[cu_seqlens[1:]] - sums[cu_seqlens[:-1]]\n",
        "import torch\n\n\ndef f(sums, lens):\n    cu_seqlens = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
        "    return sums[cu_seqlens[1:]] - sums[cu_seqlens[:-1]]\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef f(x, lens):\n    cu_seqlens = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
            "    return x[cu_seqlens[1:]]\n",
            rows=(6,),
            fixed="import torch\n\n\ndef f(x, lens):\n    cu_seqlens = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
            "    return x[cu_seqlens[1:] - 1]\n",
        ),
        Invalid(
            "import numpy as np\n\n\ndef last_tokens(hidden, seq_lens):\n    starts = np.concatenate([[0], np.cumsum(seq_lens)])\n"
            "    return hidden[starts[1:]]\n",
            rows=(6,),
            fixed="import numpy as np\n\n\ndef last_tokens(hidden, seq_lens):\n    starts = np.concatenate([[0], np.cumsum(seq_lens)])\n"
            "    return hidden[starts[1:] - 1]\n",
        ),
    ),
    fixable=True,
)
