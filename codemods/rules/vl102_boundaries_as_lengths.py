"""Cumulative boundaries are given where segment lengths belong.

### What it does
Reports boundaries (or their cumulative ends) as lengths: in `from_seqlens`, `seqused_k` and their kin, as the sizes of `split`, and
under a second cumulative sum.

### Why is this bad?
Every segment but the first is taken to be as long as everything before it. Masks then join segments, and a second cumulative sum runs
past the last row.

### Example
```python
offsets = torch.tensor([0, *lens]).cumsum(0)
bias = BlockDiagonalMask.from_seqlens(offsets.tolist())
```

### Use instead
```python
bias = BlockDiagonalMask.from_seqlens(lens)
```

### Fix safety
Unsafe: boundaries become their differences, so other values are computed, which is the purpose.

### References
- [xformers: attention biases](https://facebookresearch.github.io/xformers/components/ops.html)
- [torch.split](https://docs.pytorch.org/docs/stable/generated/torch.split.html)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.known_boundaries import measured, passed_as_boundaries
from shapecheck.codemods.queries.slots import BOUNDS, LENS, slots
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_SIZES = {
    "split": ("split_size_or_sections", "the size of each part"),
    "split_with_sizes": ("split_sizes", "the size of each part"),
}


def check(view: View) -> Iterator[Finding]:
    """VL102."""
    for slot in slots(view, LENS):
        # The NPU operators take cumulative lengths of keys, or plain ones of a paged cache.
        if (
            slot.sink is not None
            and not slot.sink.callee.startswith("npu_")
            and (whole := _boundaries(slot.term, view) or _also_boundaries(view, slot.term)) is not None
        ):
            yield _finding(view, slot.node, whole, f"{slot.taker} takes the length of each segment")
    for slot in slots(view, BOUNDS):
        bounds = None if slot.guessed else bounds_of(slot.term)
        if (
            bounds is not None
            and bounds.kind == "lens"
            and (whole := _boundaries(bounds.source, view, named=False)) is not None
        ):
            yield _finding(
                view, bounds.term.node or slot.node, whole, "a cumulative sum takes the length of each segment"
            )
    for call in view.calls:
        wanted = _lengths_in(call)
        if wanted is None:
            continue
        node, term, meaning = wanted
        whole = _boundaries(term, view)
        if whole is not None:
            yield _finding(view, node, whole, f"`{call.name}` takes {meaning}")


def _also_boundaries(view: View, term: Term) -> Term | None:
    return plain(term) if passed_as_boundaries(view, term) or measured(view, term) else None


def _finding(view: View, node: ast.AST, whole: Term, expectation: str) -> Finding:
    text = written(node)
    shown = "this value" if text == "a value" else text
    return view.finding(
        RULE,
        node,
        f"{expectation}, but {shown} holds cumulative boundaries{view.line(whole.node)}; pass their differences, "
        "`cu_seqlens.diff()`",
        notes=[(whole.node, "cumulative boundaries")],
    )


def _lengths_in(call: Call) -> tuple[ast.expr, Term, str] | None:
    """The argument of a row operation that holds one length for each segment."""
    given = _SIZES.get(call.name)
    if given is None or call.path == "numpy.split":
        return None
    keyword, meaning = given
    position = 1 if call.receiver is None else 0
    node = call.arg_node(position, keyword)
    term = call.kwargs.get(keyword) or (call.args[position] if position < len(call.args) else None)
    return None if node is None or term is None else (node, term, meaning)


def _boundaries(term: Term, view: View, *, named: bool = True) -> Term | None:
    """The boundaries that a value certainly is, whole or without the leading zero; `named`: also those that only have the name."""
    inner = plain(term)
    if inner.op == "item" and inner.args[1].op == "slice":
        low, high, step = inner.args[1].args
        if not (low.is_const(1) and high.is_const(None) and step.is_const(None)):
            return None
        inner = plain(inner.args[0])
    if named and _is_named(inner, view):
        return inner
    bounds = bounds_of(inner)
    return None if bounds is None or bounds.kind == "dense" or bounds.zero is None else bounds.term


def _is_named(term: Term, view: View) -> bool:
    """Whether the value comes from outside under a name for boundaries."""
    if term.op == "parameter":
        return view.catalogue.role_of(str(term.args[0])) in BOUNDS
    return term.op == "attr" and view.catalogue.role_of(str(term.args[1])) in BOUNDS


RULE = Rule(
    "VL102",
    "boundaries-as-lengths",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef f(cu_seqlens, n):\n"
        "    return torch.repeat_interleave(torch.arange(n), cu_seqlens[1:] - cu_seqlens[:-1])\n",
        "import torch\n\n\ndef f(x, lens):\n    ends = lens.cumsum(0)\n    return torch.tensor_split(x, ends[:-1].cpu())\n",
        "import numpy as np\n\n\ndef f(x, lens):\n    return np.split(x, np.cumsum(lens))\n",
    ),
    invalid=(
        Invalid(
            "import torch\nfrom xformers.ops.fmha import BlockDiagonalMask\n\n\ndef f(parts):\n"
            "    offsets = torch.tensor([0, *(p.shape[0] for p in parts)]).cumsum(0)\n"
            "    return BlockDiagonalMask.from_seqlens(offsets.tolist())\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\n\n\ndef f(cu_seqlens, x):\n    return torch.split(x, cu_seqlens[1:].tolist())\n",
            rows=(5,),
        ),
        Invalid(
            "from itertools import accumulate\n\nimport torch\n\n\ndef f(block, x, parts):\n"
            "    ends = list(accumulate(len(p) for p in parts))\n"
            "    cu_seqlens = torch.nn.functional.pad(torch.tensor(ends).cumsum(0), (1, 0))\n"
            "    return block(x, cu_seqlens=cu_seqlens)\n",
            rows=(8,),
        ),
    ),
)
