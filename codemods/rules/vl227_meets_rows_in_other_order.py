"""Rows in the order of micro-batches meet rows in the original order, before the order is restored.

### What it does
Finds a sum, product or `masked_fill` of rows that were computed in another order with rows of the batch in its own order, where the
result is restored to the original order afterwards.

### Why is this bad?
Every sample is multiplied with the mask of another one; the restored result has the right shape and wrong values.

### Example
```python
values = model(rows[order])
values = values * batch["attention_mask"]
return values[torch.argsort(order)]
```

### Use instead
```python
values = model(rows[order])
values = values[torch.argsort(order)]
return values * batch["attention_mask"]
```

### Fix safety
No fix.

### References
- [verl: rearrange_micro_batches](https://github.com/volcengine/verl/blob/main/verl/utils/seqlen_balancing.py)
"""

from collections.abc import Iterator

from shapecheck.codemods.compare import sample_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.queries.orders import inverse_of
from shapecheck.codemods.queries.rearranged import within
from shapecheck.codemods.queries.row_chain import gathered
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_MEETS = {"Mult", "Add", "Sub"}
_FIRST = {"cast", "host", "moved", "copy", "typed_like"}
_SECOND = {"view", "elementwise"}


def check(view: View) -> Iterator[Finding]:
    """VL227."""
    by_op = view.module.pool.by_op
    seen: set[Term] = set()
    for op in ("item", "picked"):
        for restored in by_op.get(op, ()):
            index = restored.args[1] if op == "item" else restored.args[2]
            order = inverse_of(index)
            if order is None or not within(view, restored):
                continue
            for meeting, other in _meetings(restored.args[0], order):
                if meeting not in seen and meeting.node is not None and _of_batch(view, other, meeting, order):
                    seen.add(meeting)
                    yield view.finding(
                        RULE,
                        meeting.node,
                        f"the rows are still in the order {named(view, order)} here, but {named(view, other)} is in the original order; "
                        f"restore the order first, as is done{view.line(restored.node)}",
                        notes=[(order.node, "the order"), (restored.node, "restored here")],
                    )


def _meetings(rows: Term, order: Term) -> Iterator[tuple[Term, Term]]:
    """Where rows in an order met others, and these."""
    while True:
        if rows.op in _FIRST or (rows.op in {"sum", "mean"} and len(rows.args) > 1 and rows.args[1].value in {1, -1}):
            rows = rows.args[0]
        elif rows.op in _MEETS or (rows.op == "elementwise" and rows.args[0] == "masked_fill" and len(rows.args) == 3):
            sides = rows.args[-2:]
            mine = [side for side in sides if _is_in(side, order)]
            if len(mine) != 1:
                return
            yield rows, next(side for side in sides if side is not mine[0])
            rows = mine[0]
        elif rows.op in _SECOND:
            rows = rows.args[1]
        else:
            return


def _is_in(rows: Term, order: Term) -> bool:
    """Whether rows were put in an order, by it or by the call that gave it."""
    inside = set(rows.walk())
    return order in inside or (order.op == "item" and order.args[0].op == "call" and order.args[0] in inside)


def _of_batch(view: View, other: Term, meeting: Term, order: Term) -> bool:
    """Whether the other rows are a field of the very batch that was put in order, or what the order was made from."""
    while other.op in {*_FIRST, *_SECOND, "Invert", "not", "Eq", "Gt", "item"}:
        if other.op == "item" and isinstance(other.args[1].value, str):
            break
        other = other.args[1 if other.op in _SECOND else 0]
    if order.op == "argsort" and other.op == "parameter":
        return other in set(order.walk())
    batch = sample_of(other)
    if batch is other or other.op != "item" or view.catalogue.role_of(other.args[1].value) not in {"mask", "rows"}:
        return False
    if order.op == "item" and order.args[0].op == "call":
        return batch in order.args[0].args
    for inner in meeting.walk():
        found = gathered(inner)
        if found is not None and found[1] is order and sample_of(found[0]) is batch:
            return True
    return False


_HEAD = "import torch\n\n\n"

RULE = Rule(
    "VL227",
    "meets-rows-in-other-order",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def score(model, batch):\n"
        "    order = torch.argsort(batch['lengths'])\n"
        "    values = model(batch['input_ids'][order])\n"
        "    values = values[torch.argsort(order)]\n"
        "    return values * batch['attention_mask']\n",
        # The mask is in the same order.
        _HEAD + "def score(model, batch):\n"
        "    order = torch.argsort(batch['lengths'])\n"
        "    values = model(batch['input_ids'][order]) * batch['attention_mask'][order]\n"
        "    return values[torch.argsort(order)]\n",
        # One number for all.
        _HEAD + "def score(model, batch, temperature):\n"
        "    order = torch.argsort(batch['lengths'])\n"
        "    values = model(batch['input_ids'][order]) * temperature\n"
        "    return values[torch.argsort(order)]\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def score(model, batch):\n"
            "    order = torch.argsort(batch['lengths'])\n"
            "    values = model(batch['input_ids'][order])\n"
            "    values = values * batch['attention_mask']\n"
            "    return values[torch.argsort(order)]\n",
            rows=(7,),
        ),
        Invalid(
            _HEAD + "def score(model, ids, mask):\n"
            "    order = mask.sum(-1).argsort()\n"
            "    out = model(ids[order])\n"
            "    out = (out * mask).sum(-1)\n"
            "    return out[order.argsort()]\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\nfrom .balancing import rearrange, get_reverse_idx\n\n\n"
            "def score(model, data, limit):\n"
            "    micro_batches, order = rearrange(data, limit)\n"
            "    scores = torch.cat([model(micro) for micro in micro_batches])\n"
            "    scores = scores.masked_fill(data['loss_mask'] == 0, 0.0)\n"
            "    back = get_reverse_idx([i for part in order for i in part])\n"
            "    return scores[torch.tensor(back)]\n",
            rows=(8,),
        ),
    ),
)
