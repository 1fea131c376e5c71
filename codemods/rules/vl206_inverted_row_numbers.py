"""Row numbers are inverted where a mask was meant.

### What it does
Finds `~` (and `-` in an index) applied to row numbers: to the result of `nonzero`, of one-argument `where`, of `topk`, or of
a helper that returns the indices of valid tokens.

### Why is this bad?
`~i` of a number is `-i - 1`, so the rows are counted from the end: a set of rows comes out that has nothing to do with the rows that
the mask leaves out. No error is raised.

### Example
```python
padding = ~mask.nonzero().flatten()
```

### Use instead
```python
padding = (~mask).nonzero().flatten()
```

### Fix safety
No fix: the mask has to be inverted before its rows are numbered.

### References
- [torch.nonzero](https://docs.pytorch.org/docs/stable/generated/torch.nonzero.html)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.rearranged import within
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_SAME_NUMBERS = {"host", "moved", "copy", "typed_like", "tensor"}
_NUMBERS = {"nonzero", "mask_indices"}
_RANKING = {"topk", "kthvalue"}  # return (values, indices)


def check(view: View) -> Iterator[Finding]:
    """VL206."""
    by_op = view.module.pool.by_op
    if "Invert" not in by_op and "USub" not in by_op:
        return
    for inverted in by_op.get("Invert", ()):
        if within(view, inverted) and _are_row_numbers(inverted.args[0]):
            yield _finding(view, inverted, "~")
    for indexed in by_op.get("item", ()):
        index = indexed.args[1]
        if index.op == "USub" and within(view, index) and _are_row_numbers(index.args[0]):
            yield _finding(view, index, "-")


def _are_row_numbers(term: Term) -> bool:
    while True:
        if term.op in _SAME_NUMBERS or (term.op == "cast" and term.args[1] in {"int32", "int64"}):
            term = term.args[0]
        elif term.op == "view":
            term = term.args[1]
        elif term.op == "item" and term.args[1].op in {"const", "tuple"}:
            if _is_ranking(term.args[0]):
                return bool(term.args[1].is_const(1))
            term = term.args[0]  # one column, or the first result of where
        elif term.op == "attr" and term.args[1] == "indices":
            return _is_ranking(term.args[0])
        else:
            return term.op in _NUMBERS


def _is_ranking(term: Term) -> bool:
    return term.op == "call" and str(term.args[0]).rpartition(".")[2] in _RANKING


def _finding(view: View, inverted: Term, sign: str) -> Finding:
    node = inverted.node
    assert node is not None
    numbers = inverted.args[0]
    return view.finding(
        RULE,
        node,
        f"`{sign}` on row numbers{view.line(numbers.node)} counts rows from the end; to get the other rows, invert the mask before "
        "its rows are numbered: `(~mask).nonzero()`",
        notes=[(numbers.node, "row numbers, not a mask")] if not isinstance(numbers.node, ast.Name) else (),
    )


_HEAD = "import torch\n\n\n"

RULE = Rule(
    "VL206",
    "inverted-row-numbers",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def padding_rows(attention_mask):\n    return (~attention_mask.bool()).nonzero().flatten()\n",
        # Counted from the end on purpose.
        _HEAD + "def last_rows(hidden, labels, n):\n"
        "    kept = labels.nonzero()\n"
        "    return hidden[-1 - torch.arange(n)], hidden[-torch.arange(1, n)], kept\n",
        # A mask that another helper made.
        _HEAD + "def others(hidden, scores, labels):\n"
        "    chosen = pick(scores, labels[:, 1:]).indices\n"
        "    return hidden[~chosen], labels[:, :-1]\n",
        # Whether no row is left.
        _HEAD + "def empty(labels):\n    return ~labels.nonzero().any()\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def padding_rows(attention_mask):\n    return ~attention_mask.bool().nonzero().flatten()\n",
            rows=(5,),
        ),
        Invalid(
            _HEAD + "def clear(hidden, labels):\n"
            "    labels = labels[:, 1:]\n"
            "    kept, = torch.where(labels[:, :-1] != -100)\n"
            "    hidden[~kept] = 0\n"
            "    return hidden\n",
            rows=(7,),
        ),
        Invalid(
            _HEAD + "def prune(hidden, cu_seqlens, scores):\n"
            "    dropped = scores.topk(8, largest=False).indices\n"
            "    return hidden[~dropped], cu_seqlens\n",
            rows=(6,),
        ),
        Invalid(
            "import numpy as np\n\n\n"
            "def others(rows, labels):\n"
            "    kept = np.flatnonzero(labels[:-1])\n"
            "    labels = labels[1:]\n"
            "    return rows[-kept], labels\n",
            rows=(7,),
        ),
    ),
)
