"""Segment lengths are summed over the batch axis of a mask.

### What it does
Reports boundaries made of `mask.sum(0)` in a function that selects rows with the same mask.

### Why is this bad?
The mask is (batch, length). Its sum over axis 0 counts the samples in each column, not the rows of each sample. The
total is the same, so the boundaries fit the rows and are wrong everywhere in between.

### Example
```python
lens = mask.sum(0)
tokens, cu_seqlens = ids[mask], F.pad(lens.cumsum(0), (1, 0))
```

### Use instead
```python
lens = mask.sum(1)
tokens, cu_seqlens = ids[mask], F.pad(lens.cumsum(0), (1, 0))
```

### Fix safety
No fix: the sum may be used for other things too.

### References
- [torch.sum](https://docs.pytorch.org/docs/stable/generated/torch.sum.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import place, shown, written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL312."""
    yield from _swapped(view)
    sums = {found: binding for binding in view.bindings if (found := _column_sums(binding.value)) is not None}
    if not sums:
        return
    values = [*(binding.value for binding in view.bindings), *(returned.value for returned in view.returns)]
    every = {inner for value in values for inner in value.walk()}
    for found, binding in sums.items():
        mask = found.args[0]
        rows = next((inner for inner in every if _selects(inner, mask)), None)
        if rows is not None:
            yield view.finding(
                RULE,
                found.node or binding.node,
                f"axis 0 of {written(mask, 'the mask')} is the batch, so this counts samples in each column; the rows "
                f"were selected with the same mask{place(view, rows)}, so sum over axis 1 to count the rows of each "
                "sample",
                notes=[(rows.node, "rows selected here"), (binding.node, "boundaries made here")],
            )


def _swapped(view: View) -> Iterator[Finding]:
    """`arange(0, (length + 1) * batch, batch)` for a flattened batch: each segment is as long as the batch is wide."""
    for consumer in view.consumers:
        for _, rows, meta, _ in consumer.sides():
            bounds = None if rows is None or meta is None else bounds_of(meta.term)
            if rows is None or meta is None or bounds is None or bounds.kind != "dense":
                continue
            step = plain(bounds.source)
            if step.op != "shape" or not step.args[1].is_const(0) or bounds.term.op == "Mult":
                continue
            length = step.pool.make("shape", step.args[0], step.pool.const(1))
            if length not in set(bounds.term.walk()) or not _flattens(rows.term, step.args[0]):
                continue
            yield view.finding(
                RULE,
                meta.node,
                f"`{shown(meta)}` steps by the number of samples{place(view, bounds.term)}, but a segment of the "
                f"flattened batch `{shown(rows)}` is one sample; step by its length",
                notes=[(bounds.term.node, "boundaries made here")],
            )
            return


def _flattens(rows: Term, batch: Term) -> bool:
    return any(
        inner.op == "view"
        and inner.args[0] == "flatten"
        and inner.args[1] is batch
        and [a.value for a in inner.args[2:]] == [0, 1]
        for inner in rows.walk()
    )


def _column_sums(value: Term) -> Term | None:
    """`mask.sum(0)` if the value is its cumulative sum."""
    bounds = bounds_of(value)
    if bounds is None or bounds.kind != "lens":
        return None
    source = plain(bounds.source)
    return source if source.op == "sum" and len(source.args) == 2 and source.args[1].is_const(0) else None


def _selects(term: Term, mask: Term) -> bool:
    return (term.op == "item" and plain(term.args[1]) is plain(mask)) or (
        term.op == "mask_indices" and term.args[0] is mask
    )


RULE = Rule(
    "VL312",
    "lengths-over-the-batch-axis",
    "stable",
    __doc__,
    check,
    valid=(
        "def f(ids, mask, np):\n    lens = mask.sum(1)\n    ends = lens.cumsum(0)\n    return ids[mask], ends\n",
        "def f(counts, x, mask):\n    lens = counts.sum(0)\n    cu_seqlens = lens.cumsum(0)\n"
        "    return x[mask], cu_seqlens\n",
    ),
    invalid=(
        Invalid(
            "def f(ids, mask):\n    lens = mask.sum(0)\n    cu_seqlens = lens.cumsum(0)\n"
            "    return ids[mask], cu_seqlens\n",
            rows=(2,),
        ),
        Invalid(
            "import numpy as np\n\n\ndef f(rows, pad):\n    ids = np.stack(rows)\n    valid = ids != pad\n"
            "    cu_seqlens = np.concatenate([[0], np.cumsum(valid.sum(axis=0))])\n    return ids[valid], cu_seqlens\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\nfrom flash_attn import flash_attn_varlen_qkvpacked_func\n\n\ndef f(qkv):\n"
            "    batch, n = qkv.shape[:2]\n    cu = torch.arange(0, (n + 1) * batch, batch, dtype=torch.int32)\n"
            "    return flash_attn_varlen_qkvpacked_func(qkv.flatten(0, 1), cu, n)\n",
            rows=(8,),
        ),
    ),
)
