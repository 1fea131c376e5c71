"""Tags come from the samples before they were sorted or filtered, the rows from the samples after it.

### What it does
Finds rows that were packed from a sorted, permuted or filtered list of samples beside per-token values that were packed from the
list as it was before, and the reverse.

### Why is this bad?
Each token reads the value of a token of another sample. After sorting the lengths agree in total, so nothing fails.

### Example
```python
modality_ids = torch.cat([s["modality"] for s in samples])
ordered = sorted(samples, key=length)
tokens = torch.cat([s["tokens"] for s in ordered])
```

### Use instead
```python
ordered = sorted(samples, key=length)
modality_ids = torch.cat([s["modality"] for s in ordered])
tokens = torch.cat([s["tokens"] for s in ordered])
```

### Fix safety
No fix: either list may be the one that is meant.

### References
- [sorted](https://docs.python.org/3/library/functions.html#sorted)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.rows import Change
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.covers import covers
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_DONE = {
    "sort": "sorted",
    "flip": "reversed",
    "pick": "picked in another order",
    "filter": "filtered",
    "items": "cut to some of its items",
}


def check(view: View) -> Iterator[Finding]:
    """VL203."""
    seen: set[Term] = set()
    for cover in covers(view):
        found = cover.difference
        if found is None or found.change is None or found.change.kind not in _DONE or cover.meta.term in seen:
            continue
        if not found.part.each or not cover.rows.role:
            continue
        seen.add(cover.meta.term)
        rows, meta = cover.rows.name, cover.meta.name or "the tags"
        odd, even = (rows, meta) if found.rows_changed else (meta, rows)
        made = cover.per_row.term.node if cover.per_row is not None else cover.meta.term.node
        yield view.finding(
            RULE,
            made or cover.meta.node,
            f"`{odd}` comes from {_samples(view, found.change)} {_DONE[found.change.kind]}{view.line(found.change.term.node)}, but "
            f"`{even}` comes from the samples as they were before; take both from the same list",
            notes=[
                (found.change.term.node, f"only `{odd}` follows this"),
                (cover.row_term.node, f"`{rows}` is joined here"),
            ],
        )


def _samples(view: View, change: Change) -> str:
    source = change.term.args[0]
    return named(view, source) if source.op == "parameter" else "samples that were"


_HEAD = "import torch\n\n\n"

RULE = Rule(
    "VL203",
    "tags-of-other-samples",
    "stable",
    __doc__,
    check,
    valid=(
        # Sorted a second time by the same key.
        _HEAD + "def pack(samples):\n    samples = sorted(samples, key=len)\n"
        "    tags = torch.cat([s['token_tags'] for s in samples])\n"
        "    return {'tokens': torch.cat([s['tokens'] for s in sorted(samples, key=len)]), 'token_tags': tags}\n",
        _HEAD + "def pack(samples):\n"
        "    samples = sorted(samples, key=len)\n"
        "    tags = torch.cat([s['token_tags'] for s in samples])\n"
        "    return {'tokens': torch.cat([s['tokens'] for s in samples]), 'token_tags': tags}\n",
        # The positions are those of the order in which the samples were packed.
        _HEAD + "def pack(samples, order):\n"
        "    picked = [samples[i] for i in order]\n"
        "    tokens = torch.cat([s['tokens'] for s in picked])\n"
        "    position_ids = torch.cat([torch.arange(len(samples[i]['tokens'])) for i in order])\n"
        "    return {'tokens': tokens, 'position_ids': position_ids}\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def to_sample(prompt, turns, n):\n"
            "    ids, loss_mask = list(prompt), [0] * len(prompt)\n"
            "    for turn in turns:\n"
            "        ids += turn.token_ids\n"
            "        if turn.trained:\n"
            "            loss_mask += [1] * len(turn.token_ids)\n"
            "    return {'input_ids': torch.tensor(ids[:n]), 'loss_mask': torch.tensor(loss_mask[:n])}\n",
            rows=(10,),
        ),
        Invalid(
            _HEAD + "def pack(samples):\n"
            "    tags = torch.cat([s['token_tags'] for s in samples])\n"
            "    ordered = sorted(samples, key=len)\n"
            "    return {'tokens': torch.cat([s['tokens'] for s in ordered]), 'token_tags': tags}\n",
            rows=(5,),
        ),
        Invalid(
            _HEAD + "def pack(samples):\n"
            "    position_ids = torch.cat([torch.arange(len(s['tokens'])) for s in samples])\n"
            "    samples.sort(key=len)\n"
            "    return {'tokens': torch.cat([s['tokens'] for s in samples]), 'position_ids': position_ids}\n",
            rows=(5,),
        ),
        Invalid(
            _HEAD + "def pack(docs, order):\n"
            "    tokens = torch.cat([docs[i] for i in order])\n"
            "    segment_ids = torch.cat([torch.full_like(doc, i) for i, doc in enumerate(docs)])\n"
            "    return {'tokens': tokens, 'segment_ids': segment_ids}\n",
            rows=(6,),
        ),
    ),
)
