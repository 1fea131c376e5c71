"""A mask is repeated batch by batch for rows that are laid out sample by sample with the heads inside.

### What it does
Finds scores of queries reshaped to `batch * heads` that are masked by `mask.repeat(heads, 1, 1)`.

### Why is this bad?
The repeated mask has the samples inside the heads, the scores have the heads inside the samples: most rows get the mask of
another sample.

### Example
```python
q = q.view(batch, n, heads, dim).transpose(1, 2).reshape(batch * heads, n, dim)
scores = torch.bmm(q, k).masked_fill(mask.repeat(heads, 1, 1), -inf)
```

### Use instead
```python
q = q.view(batch, n, heads, dim).transpose(1, 2).reshape(batch * heads, n, dim)
scores = torch.bmm(q, k).masked_fill(mask.repeat_interleave(heads, dim=0), -inf)
```

### Fix safety
No fix.

### References
- [torch.repeat_interleave](https://docs.pytorch.org/docs/stable/generated/torch.repeat_interleave.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.everything import values
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_PRODUCTS = {"bmm", "baddbmm", "matmul"}
_SPLIT = {"view", "reshape", "unflatten"}


def check(view: View) -> Iterator[Finding]:
    """VL244."""
    if not any(call.name == "repeat" for call in view.calls):
        return
    seen: set[Term] = set()
    for term in values(view):
        for scores, mask in _masked(term):
            tiled = _tiled(mask)
            if tiled is None or tiled in seen:
                continue
            heads = tiled.args[2]
            rows = _rows_of_scores(scores)
            if rows is not None and tiled.node is not None and _heads_inside(rows, heads):
                seen.add(tiled)
                yield view.finding(
                    RULE,
                    tiled.node,
                    f"the rows are laid out sample by sample with the heads inside{view.line(rows.node)}, but {written(tiled.node)} "
                    "repeats the whole batch for each head; use `repeat_interleave` on axis 0",
                    notes=[(rows.node, "samples and heads are joined here")],
                )


def _masked(term: Term) -> Iterator[tuple[Term, Term]]:
    """The scores and the mask of `scores.masked_fill(mask, ...)` and of `scores + mask`."""
    if term.op == "elementwise" and term.args[0] in {"masked_fill", "masked_fill_"} and len(term.args) > 2:
        yield term.args[1], term.args[2]
    elif term.op == "Add":
        yield term.args[0], term.args[1]
        yield term.args[1], term.args[0]


def _tiled(mask: Term) -> Term | None:
    """`x.repeat(heads, 1, 1)`, also inverted or compared."""
    mask = _bare(mask)
    while mask.op in {"Invert", "Eq", "elementwise", "cast"}:
        mask = _bare(mask.args[1 if mask.op == "elementwise" else 0])
    if mask.op not in {"call", "repeat"} or (mask.op == "call" and mask.args[0] != ".repeat") or len(mask.args) < 5:
        return None
    return mask if all(isinstance(arg, Term) and arg.is_const(1) for arg in mask.args[3:]) else None


def _rows_of_scores(scores: Term) -> Term | None:
    """The queries of a product of queries and keys."""
    scores = _bare(scores)
    while scores.op in {"Mult", "Div", "cast"}:
        scores = _bare(scores.args[0])
    if scores.op == "call" and str(scores.args[0]).rpartition(".")[2] in _PRODUCTS:
        operands = [arg for arg in scores.args[1:] if isinstance(arg, Term)]
    elif scores.op in {"MatMult", "matmul", "bmm"}:
        operands = [arg for arg in scores.args if isinstance(arg, Term)]
    else:
        return None
    return _bare(operands[0]) if operands else None


def _bare(term: Term) -> Term:
    """A value without casts and copies; views stay."""
    while term.op in {"cast", "copy", "moved", "typed_like"}:
        term = term.args[0]
    return term


def _heads_inside(rows: Term, heads: Term) -> bool:
    """Whether rows are `x.view(batch, n, heads, dim).transpose(1, 2).reshape(batch * heads, ...)`."""
    while rows.op in {"Mult", "Div"}:
        rows = _bare(rows.args[0])
    if rows.op != "view" or rows.args[0] not in {"reshape", "view"} or len(rows.args) < 3:
        return False
    turned = _bare(rows.args[1])
    if (
        turned.op != "view"
        or turned.args[0] != "transpose"
        or not (turned.args[2].is_const(1) and turned.args[3].is_const(2))
    ):
        return False
    split = _bare(turned.args[1])
    if split.op != "view" or split.args[0] not in _SPLIT or len(split.args) != 6 or split.args[4] is not heads:
        return False
    first = rows.args[2]
    return first.op == "Mult" and heads in first.args and split.args[2] in first.args


_HEAD = "import torch\n\n\n"
_ROWS = (
    "    attention_mask = mask[:, None].expand(-1, n, -1)\n"
    "    q = q.view(b, n, num_heads, d).transpose(1, 2).reshape(b * num_heads, n, d)\n"
    "    k = k.view(b, n, num_heads, d).transpose(1, 2).reshape(b * num_heads, n, d)\n"
)

RULE = Rule(
    "VL244",
    "mask-tiled-across-heads",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD
        + "def f(q, k, mask, b, n, num_heads, d):\n"
        + _ROWS
        + "    mask = mask.repeat_interleave(num_heads, dim=0)\n"
        "    return torch.bmm(q, k.transpose(1, 2)).masked_fill(mask, -1e9), mask.repeat(num_heads, 1, 1)\n",
        # The heads are outside.
        _HEAD + "def f(q, k, attention_mask, b, num_heads, d):\n    q = torch.cat(q.split(d, dim=-1), dim=0)\n"
        "    k = torch.cat(k.split(d, dim=-1), dim=0)\n    attention_mask = attention_mask.repeat(num_heads, 1, 1)\n"
        "    return torch.bmm(q, k.transpose(1, 2)).masked_fill(attention_mask, -1e9)\n",
        # One mask for all samples, for scores of four axes.
        _HEAD + "def f(q, k, attention_mask, b, n, num_heads, d):\n"
        "    q = q.view(b, n, num_heads, d).transpose(1, 2).reshape(b * num_heads, n, d)\n"
        "    scores = torch.bmm(q, k.transpose(1, 2)).view(b, num_heads, n, n)\n"
        "    return scores + attention_mask.repeat(num_heads, 1, 1)\n",
    ),
    invalid=(
        Invalid(
            _HEAD
            + "def f(q, k, mask, b, n, num_heads, d):\n"
            + _ROWS
            + "    attention_mask = attention_mask.repeat(num_heads, 1, 1)\n"
            "    scores = torch.bmm(q, k.transpose(1, 2)) * d**-0.5\n    return scores.masked_fill(~attention_mask, -1e9)\n",
            rows=(8,),
        ),
        Invalid(
            _HEAD + "class A:\n    def f(self, q, k, bias, b, n):\n"
            "        q = self.q(q).reshape(b, n, self.num_heads, 64).transpose(1, 2).reshape(b * self.num_heads, n, 64)\n"
            "        k = self.k(k).reshape(b, n, self.num_heads, 64).transpose(1, 2).reshape(b * self.num_heads, n, 64)\n"
            "        scores = torch.matmul(q, k.transpose(1, 2))\n        return scores + bias.repeat(self.num_heads, 1, 1)\n",
            rows=(9,),
        ),
    ),
)
