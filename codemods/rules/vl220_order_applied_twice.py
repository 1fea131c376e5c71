"""Rows that were put in an order are put in that order again, where its inverse was due.

### What it does
Finds rows that were picked by an order, went through layers or a model, and are picked by the same order again.

### Why is this bad?
`rows[order][order]` is not `rows`, unless the order happens to be its own inverse. Shapes agree, so the rows just end up at the
places of others.

### Example
```python
order = torch.argsort(lengths)
out = model(rows[order])
return out[order]
```

### Use instead
```python
order = torch.argsort(lengths)
out = model(rows[order])
return out[torch.argsort(order)]
```

### Fix safety
The fix wraps the second index into `torch.argsort`; it is unsafe, since the first use of the order may be the wrong one.

### References
- [torch.argsort](https://pytorch.org/docs/stable/generated/torch.argsort.html)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding, Fix, Replace
from shapecheck.codemods.queries.in_scope import module_name
from shapecheck.codemods.queries.libraries import library_of
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.queries.orders import is_order
from shapecheck.codemods.queries.rearranged import within
from shapecheck.codemods.queries.row_chain import chain, gathered
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL220."""
    by_op = view.module.pool.by_op
    gathers = [call.result for call in view.calls if call.name in {"gather", "take_along_dim"}]
    for terms in (by_op.get("item", ()), by_op.get("picked", ()), gathers):
        for term in terms:
            found = gathered(term)
            if found is None or term.node is None:
                continue
            rows, order = found
            if not _processed(rows) or not within(view, term) or not is_order(view, order):
                continue
            first = _first_use(rows, order)
            if first is not None:
                yield view.finding(
                    RULE,
                    term.node,
                    f"the rows are in the order {named(view, order)} already{view.line(first.node)}; picking by it once more does not "
                    "restore them: pick by its inverse, `argsort` of the order",
                    notes=[(first.node, "the rows are put in this order here"), (order.node, "the order")],
                    fix=_fix(view, term),
                )


def _processed(rows: Term) -> bool:
    """Whether rows went through a call since they were picked last."""
    for step in chain(rows):
        if step.op == "call":
            return True
        if gathered(step) is not None:
            return False
    return False


def _first_use(rows: Term, order: Term) -> Term | None:
    """Where the rows were put in the order, if nothing has rearranged them since."""
    for step in chain(rows):
        found = gathered(step)
        if found is not None:
            return step if found[1] is order else None
    return None


def _fix(view: View, term: Term) -> Fix | None:
    node = term.node
    if term.op != "item" or not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Name):
        return None
    torch = module_name(view, "torch")
    if torch is None or library_of(view, node.slice) != "torch":
        return None
    code = f"{torch}.argsort({node.slice.id})"
    return view.fix(f"Pick by `{code}`", Replace(view.source.span(node.slice), code))


_HEAD = "import torch\n\n\n"
_EXPERTS = (
    _HEAD
    + "def experts(x, expert, mlps):\n    order = torch.argsort(expert)\n    sizes = torch.bincount(expert).tolist()\n"
    "    out = torch.cat([mlp(part) for mlp, part in zip(mlps, x[order].split(sizes))])\n"
)

RULE = Rule(
    "VL220",
    "order-applied-twice",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def encode(model, rows, lengths):\n"
        "    order = torch.argsort(lengths)\n"
        "    out = model(rows[order])\n"
        "    return out[torch.argsort(order)]\n",
        # Two values in one order, each picked once.
        _HEAD + "def encode(model, rows, labels, lengths):\n"
        "    order = torch.argsort(lengths)\n"
        "    return model(rows[order]), labels[order]\n",
        # The rows of the best samples, not an order of all.
        _HEAD + "def best(model, rows, keep):\n    out = model(rows[keep])\n    return out, model(out)[keep]\n",
        # The rotary table takes the rows for their dtype only.
        _HEAD + "def tower(self, x, position_ids, lengths):\n"
        "    order = torch.argsort(lengths)\n"
        "    x = x[order]\n"
        "    table = self.rotary_emb(x, position_ids)\n"
        "    return self.blocks(x, table[order])\n",
        # Restored by a store.
        _HEAD + "def encode(model, rows, lengths):\n"
        "    order = torch.argsort(lengths)\n"
        "    out = model(rows[order])\n"
        "    back = torch.empty_like(out)\n"
        "    back[order] = out\n"
        "    return back\n",
        # The experts' rows, put back by the inverse and by adding.
        _EXPERTS
        + "    back = torch.argsort(order)\n    return out[back], torch.zeros_like(x).index_add(0, order, out)\n",
        # Features side by side are no pieces of the rows.
        _HEAD + "def attend(norm, x, lengths):\n    order = lengths.argsort()\n    q, k = x[order].split(64, dim=-1)\n"
        "    return torch.argsort(order), norm(q), norm(k)\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def encode(model, rows, lengths):\n"
            "    order = torch.argsort(lengths)\n"
            "    out = model(rows[order])\n"
            "    return out[order]\n",
            rows=(7,),
            fixed=_HEAD + "def encode(model, rows, lengths):\n"
            "    order = torch.argsort(lengths)\n"
            "    out = model(rows[order])\n"
            "    return out[torch.argsort(order)]\n",
        ),
        Invalid(
            _HEAD + "class Tower:\n"
            "    def forward(self, x, window_index, cu_window_seqlens):\n"
            "        x = self.embed(x)[window_index, :]\n"
            "        for layer in self.layers:\n"
            "            x = layer(x, cu_seqlens=cu_window_seqlens)\n"
            "        return self.merger(x)[window_index, :]\n",
            rows=(9,),
        ),
        Invalid(
            _HEAD + "def score(model, samples):\n"
            "    order = sorted(range(len(samples)), key=lambda i: len(samples[i]))\n"
            "    scores = [model(samples[i]) for i in order]\n"
            "    return [scores[i] for i in order]\n",
            rows=(7,),
        ),
        Invalid(
            _HEAD + "def score(model, ids, lengths, size):\n"
            "    order = lengths.argsort(descending=True)\n"
            "    out = torch.cat([model(ids[part]) for part in order.split(size)])\n"
            "    return out.index_select(0, order)\n",
            rows=(7,),
        ),
        Invalid(_EXPERTS + "    return out.gather(0, order.unsqueeze(-1).expand_as(out))\n", rows=(8,)),
        Invalid(_EXPERTS + "    return torch.gather(out, 0, order[:, None].expand(-1, 64))\n", rows=(8,)),
    ),
    fixable=True,
)
