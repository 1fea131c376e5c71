"""Position ids of a padded batch are counted from sample to sample instead of from token to token.

### What it does
Finds position ids that are the running sum over axis 0 of a mask which has one row for each sample.

### Why is this bad?
Token 5 of sample 3 gets the number of samples before it that are as long. The shape is right, so nothing fails.

### Example
```python
mask = torch.zeros(len(prompts), width)
position_ids = mask.cumsum(0) - 1
```

### Use instead
```python
mask = torch.zeros(len(prompts), width)
position_ids = mask.cumsum(-1) - 1
```

### Fix safety
No fix.

### References
- [torch.cumsum](https://pytorch.org/docs/stable/generated/torch.cumsum.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.queries.padded_batch import is_padded_batch
from shapecheck.codemods.queries.rearranged import within
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_SAME = {"cast", "host", "moved", "copy", "typed_like", "Sub", "Mult", "Add", "store"}


def check(view: View) -> Iterator[Finding]:
    """VL224."""
    counts = [
        term for term in view.module.pool.by_op.get("cumsum", ()) if term.args[1].is_const(0) and within(view, term)
    ]
    if not counts:
        return
    positions = {
        _count(binding.value) for binding in view.bindings if view.catalogue.role_of(binding.target) == "positions"
    }
    positions |= {
        _count(member.term) for company in companies(view) for member in company.members if member.role == "positions"
    }
    for count in counts:
        if count in positions and count.node is not None and _is_batch(view, count.args[0]):
            mask = count.args[0]
            yield view.finding(
                RULE,
                count.node,
                f"axis 0 of {named(view, mask)} is the batch{view.line(mask.node)}, so this counts samples; positions count the tokens of "
                "each sample, along the last axis",
                notes=[(mask.node, "one row for each sample")],
            )


def _count(term: Term) -> Term:
    """The running sum that a value is made of, without `- 1`, `clamp` and casts."""
    while term.op in _SAME or term.op == "elementwise":
        term = term.args[1 if term.op == "elementwise" else 0]
    return term


def _is_batch(view: View, mask: Term) -> bool:
    """Whether a mask was made as a padded batch, or its tokens are counted for each sample elsewhere."""
    if is_padded_batch(mask):
        return True
    while mask.op in {"cast", "moved", "host"}:
        mask = mask.args[0]
    pool = view.module.pool
    return any(
        term.args[0] is mask and len(term.args) > 1 and term.args[1].is_const(1)
        for op in ("sum", "shape")
        for term in pool.by_op.get(op, ())
    )


_HEAD = "import torch\n\n\n"

RULE = Rule(
    "VL224",
    "count-over-batch-axis",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def positions(prompts, width):\n"
        "    attention_mask = torch.zeros(len(prompts), width)\n"
        "    position_ids = attention_mask.cumsum(-1) - 1\n"
        "    return position_ids\n",
        # One packed row.
        _HEAD
        + "def positions(attention_mask):\n    position_ids = attention_mask.cumsum(0) - 1\n    return position_ids\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def positions(prompts, width):\n"
            "    attention_mask = torch.zeros(len(prompts), width)\n"
            "    for i, prompt in enumerate(prompts):\n"
            "        attention_mask[i, : len(prompt)] = 1\n"
            "    position_ids = (attention_mask.cumsum(0) - 1).clamp(min=0)\n"
            "    return position_ids\n",
            rows=(8,),
        ),
        Invalid(
            _HEAD + "def step(model, input_ids, attention_mask):\n"
            "    lengths = attention_mask.sum(1)\n"
            "    position_ids = torch.cumsum(attention_mask, dim=0) - 1\n"
            "    return model(input_ids, position_ids=position_ids, lengths=lengths)\n",
            rows=(6,),
        ),
    ),
)
