"""One packed value has a row less for each sample than the values beside it.

### What it does
Finds values joined sample by sample, such as log probabilities of the next tokens, of which each sample gives all rows but the first or
the last, beside values of which each sample gives all rows.

### Why is this bad?
From the second sample on the rows of the two no longer belong together, further apart with every sample.

### Example
```python
tokens = torch.cat([ids for ids in samples])
positions = torch.cat([torch.arange(len(ids)) for ids in samples])
scores = torch.cat([score(ids)[1:] for ids in samples])
```

### Use instead
```python
tokens = torch.cat([ids for ids in samples])
positions = torch.cat([torch.arange(len(ids)) for ids in samples])
scores = torch.cat([F.pad(score(ids)[1:], (1, 0)) for ids in samples])
```

### Fix safety
No fix.

### References
- [torch.gather](https://pytorch.org/docs/stable/generated/torch.gather.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.rows import Part, rows_of
from shapecheck.codemods.engine.describe.tags import per_row_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.queries.naming import named, part_name
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View


def check(view: View) -> Iterator[Finding]:
    """VL229."""
    by_op = view.module.pool.by_op
    if "each" not in by_op or "slice" not in by_op:
        return
    seen: set[Term] = set()
    for company in companies(view):
        joined = [(member, part) for member in company.members if (part := _joined(member)) is not None]
        short = [(member, part) for member, part in joined if _is_short(part)]
        for member, part in short:
            whole = [other for other, full in joined if not full.changes and full.root is part.root]
            alike = [other for other, cut in short if cut.root is part.root]
            if len(whole) < 2 or len(whole) <= len(alike) or part.changes[-1].term in seen:
                continue
            seen.add(part.changes[-1].term)
            cut = part.changes[-1].term
            yield view.finding(
                RULE,
                member.node,
                f"`{member.name}` has all rows but one of {part_name(view, Part(part.root, each=True))} ({named(view, cut)}"
                f"{view.line(cut.node)}), but `{whole[0].name}` has all of them, so the two part ways from the second sample on; fill in "
                "the missing row of each",
                notes=[(cut.node, "one row less"), (whole[0].node, "all rows")],
            )


def _joined(member: Argument) -> Part | None:
    """The rows of each sample that a value was joined from, or counts."""
    tags = per_row_of(member.term)
    parts = rows_of(member.term).flat if tags is None else tags.parts
    return parts[0] if len(parts) == 1 and parts[0].each and member.name else None


def _is_short(part: Part) -> bool:
    """`x[1:]` or `x[:-1]`."""
    if len(part.changes) != 1 or part.changes[0].kind != "slice" or part.changes[0].detail[0].op != "slice":
        return False
    low, high, step = part.changes[0].detail[0].args
    ends = (low.is_const(1) and high.is_const(None)) or (high.is_const(-1) and (low.is_const(None) or low.is_const(0)))
    return bool(ends and step.is_const(None))


_HEAD = "import torch\nimport torch.nn.functional as F\n\n\n"

RULE = Rule(
    "VL229",
    "part-one-row-short",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def pack(samples):\n"
        "    ids = torch.cat([s for s in samples])\n"
        "    positions = torch.cat([torch.arange(len(s)) for s in samples])\n"
        "    scores = torch.cat([F.pad(s[1:], (0, 1)) for s in samples])\n"
        "    return {'input_ids': ids, 'position_ids': positions, 'scores': scores}\n",
        # All are one row short: inputs and targets.
        _HEAD + "def pack(samples):\n"
        "    ids = torch.cat([s[:-1] for s in samples])\n"
        "    labels = torch.cat([s[1:] for s in samples])\n"
        "    return {'input_ids': ids, 'labels': labels}\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def pack(samples):\n"
            "    ids = torch.cat([s for s in samples])\n"
            "    position_ids = torch.cat([torch.arange(len(s)) for s in samples])\n"
            "    labels = torch.cat([s[1:] for s in samples])\n"
            "    return {'input_ids': ids, 'position_ids': position_ids, 'labels': labels}\n",
            rows=(9,),
        ),
        Invalid(
            _HEAD + "def pack(samples, model):\n"
            "    tokens, scores, positions = [], [], []\n"
            "    for sample in samples:\n"
            "        ids = torch.tensor(sample)\n"
            "        log_probs = model(ids)[:-1].log_softmax(-1)\n"
            "        scores.append(log_probs.gather(1, ids[1:].unsqueeze(1)).squeeze(1))\n"
            "        positions.append(torch.arange(ids.shape[0]))\n"
            "        tokens.append(ids)\n"
            "    return torch.cat(tokens), torch.cat(positions), torch.cat(scores)\n",
            rows=(13,),
        ),
    ),
)
