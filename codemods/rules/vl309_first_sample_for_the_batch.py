"""The mask of the first sample is used for every sample of the batch.

### What it does
Reports rows that are cut or selected for the whole batch by `mask[0]` in a function that also counts each sample's own
rows of the same mask, as `mask.sum(dim=1)` does.

### Why is this bad?
The lengths say how many rows each sample has, the rows are those that the first sample has: longer samples lose rows,
and the boundaries of all later samples are wrong.

### Example
```python
used = int(mask[0].sum())
states = states[:, :used]
lens = mask.sum(dim=1)
```

### Use instead
```python
used = int(mask.sum(dim=1).max())
states = states[:, :used]
lens = mask.sum(dim=1)
```

### Fix safety
No fix: whether each sample or the longest one decides is a choice.

### References
- [xDiT#546](https://github.com/xdit-project/xDiT/pull/546)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import place, written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View, name_of

_SIZES = {"shape", "size", "len", "batch_size", "bs", "ndim", "dim"}


def check(view: View) -> Iterator[Finding]:
    """VL309."""
    if not any(call.name in {"sum", "nonzero"} for call in view.calls):
        return
    every = {inner for term in _values(view) for inner in term.walk()}
    counted = {inner.args[0]: inner for inner in every if _counts_each(inner)}
    if any(_compares_with_one(node) for node in ast.walk(view.function.node)):
        return
    yield from _starts_of_first(view)
    for mask, lens in counted.items():
        first = next(
            (inner for inner in every if inner.op == "item" and inner.args[0] is mask and inner.args[1].is_const(0)),
            None,
        )
        cut = None if first is None else next((inner for inner in every if _selects(inner, first)), None)
        if first is None or first.node is None or cut is None:
            continue
        yield view.finding(
            RULE,
            first.node,
            f"rows of the whole batch{place(view, cut)} are chosen by the first sample of {written(mask, 'the mask')}, "
            f"while its lengths{place(view, lens)} are those of each sample; use every sample's mask, or the longest",
            notes=[(cut.node, "rows of all samples chosen here"), (lens.node, "each sample counted here")],
        )


def _starts_of_first(view: View) -> Iterator[Finding]:
    """Boundaries of all rows of the batch that are read off the first row."""
    for binding in view.bindings:
        joined = plain(binding.value)
        if joined.op != "cat" or joined.args[1].op not in {"list", "tuple"} or len(joined.args[1].args) < 2:
            continue
        *heads, tail = joined.args[1].args
        total = next((inner for inner in tail.walk() if _all_rows(inner)), None)
        first = next((found for head in heads if (found := _zeros_of_first(head)) is not None), None)
        if total is None or first is None:
            continue
        yield view.finding(
            RULE,
            first.node or binding.node,
            f"the boundaries{place(view, joined)} are read off the first sample of "
            f"{written(first.args[0], 'the batch')} but end at the rows of all samples{place(view, total)}; derive "
            "them from every sample",
            notes=[(total.node, "rows of all samples")],
        )


def _zeros_of_first(starts: Term) -> Term | None:
    """`positions[0]` if a value is the places where the positions of the first sample are 0."""
    starts = plain(starts)
    while starts.op in {"view", "item"}:
        starts = plain(starts.args[1] if starts.op == "view" else starts.args[0])
    if starts.op != "nonzero" or starts.args[0].op != "Eq":
        return None
    for side in starts.args[0].args:
        if side.op == "item" and side.args[1].is_const(0) and side.args[0].op in {"parameter", "attr", "item"}:
            found: Term = side
            return found
    return None


def _all_rows(term: Term) -> bool:
    """Whether a value is the number of samples times their length."""
    if term.op != "Mult" or any(side.op != "shape" for side in term.args):
        return False
    (one, at), (other, also) = (side.args for side in term.args)
    return one is other and {at.value, also.value} == {0, 1}


def _values(view: View) -> Iterator[Term]:
    for binding in view.bindings:
        yield binding.value
    for returned in view.returns:
        yield returned.value


def _counts_each(term: Term) -> bool:
    return term.op == "sum" and len(term.args) == 2 and (term.args[1].is_const(1) or term.args[1].is_const(-1))


def _compares_with_one(node: ast.AST) -> bool:
    """Whether a size is compared with 1: the function may be for batches of one."""
    return (
        isinstance(node, ast.Compare)
        and any(isinstance(side, ast.Constant) and side.value == 1 for side in node.comparators)
        and any(
            isinstance(inner, ast.Name | ast.Attribute) and name_of(inner) in _SIZES for inner in ast.walk(node.left)
        )
    )


def _selects(term: Term, first: Term) -> bool:
    """Whether a value is rows of other samples, chosen by the first one's mask."""
    if term.op != "item" or term is first:
        return False
    base, index = term.args
    if first not in set(index.walk()) or first in set(base.walk()):
        return False
    if index.op == "tuple":
        start = index.args[0]
        return start.op == "slice" and all(part.is_const(None) for part in start.children())
    return any(inner.op == "elem" for inner in base.walk())  # an item of a loop over the samples


RULE = Rule(
    "VL309",
    "first-sample-for-the-batch",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef gated(x, cu_seqlens):\n    b, n = x.shape[:2]\n    first, gate = torch.chunk(x, 2, dim=1)\n"
        "    parts = torch.cat([first[0].flatten(), gate.new_zeros(b * n)])\n    return parts, gate.sum(dim=1)\n",
        "def f(states, mask):\n    used = int(mask.sum(dim=1).max())\n    lens = mask.sum(dim=1)\n"
        "    return states[:, :used], lens\n",
        "def f(states, mask):\n    if mask.shape[0] != 1:\n        raise ValueError('one row')\n"
        "    used = int(mask[0].sum())\n"
        "    lens = mask.sum(dim=1)\n    states = states[:, :used]\n    return states, lens\n",
    ),
    invalid=(
        Invalid(
            "def f(states, mask):\n    used = int(mask[0].sum())\n    states = states[:, :used]\n"
            "    lens = mask.sum(dim=1)\n"
            "    return states, lens\n",
            rows=(2,),
        ),
        Invalid(
            "import torch\n\n\ndef f(captions, mask):\n    keep = mask[0].nonzero().flatten()\n"
            "    rows = [caption[keep] for caption in captions]\n    lens = mask.sum(-1)\n"
            "    return torch.cat(rows), lens.cumsum(0)\n",
            rows=(5,),
        ),
        Invalid(
            "import torch\n\n\ndef f(x, position_ids):\n    batch, n, width = x.shape\n"
            "    starts = (position_ids[0] == 0).nonzero().flatten()\n"
            "    cu_seqlens = torch.cat([starts, starts.new_tensor([batch * n])])\n"
            "    return x.reshape(batch * n, width), cu_seqlens\n",
            rows=(6,),
        ),
    ),
)
