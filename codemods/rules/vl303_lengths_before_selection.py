"""Boundaries or lengths were measured before samples were sorted, filtered or reordered.

### What it does
Follows boundaries back to the samples they were measured on, or that they cut the rows into, and reports them where the
packed rows come from a sorted, filtered or reversed list of the same samples, from the rows that a mask keeps, or from
pooled or repeated rows.

### Why is this bad?
The total may even be right, but segment i of the boundaries is not segment i of the rows. Nothing crashes: samples
attend to parts of their neighbours.

### Example
```python
lens = torch.tensor([s["ids"].numel() for s in samples])
samples = sorted(samples, key=lambda s: s["ids"].numel())
tokens = torch.cat([s["ids"] for s in samples])
cu_seqlens = F.pad(lens.cumsum(0), (1, 0))
```

### Use instead
```python
samples = sorted(samples, key=lambda s: s["ids"].numel())
lens = torch.tensor([s["ids"].numel() for s in samples])
tokens = torch.cat([s["ids"] for s in samples])
cu_seqlens = F.pad(lens.cumsum(0), (1, 0))
```

### Fix safety
No fix: the measurement has to move behind the selection.

### References
- [torch.nn.attention.varlen](https://docs.pytorch.org/docs/stable/nn.attention.varlen.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import partings, place, shown
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_VERBS = {
    "sort": "sorted",
    "filter": "filtered",
    "items": "cut",
    "flip": "reversed",
    "unpad": "stripped of padding",
    "pick": "selected",
    "pool": "pooled",
    "repeat": "repeated",
}


def check(view: View) -> Iterator[Finding]:
    """VL303."""
    for parting in partings(view):
        change = parting.change
        if change is None or change.kind not in _VERBS:
            continue
        if not parting.measured.cumulative and parting.leaves:
            continue  # lengths may be kept in the first order, to restore it
        verb = _VERBS[change.kind]
        one, other = (parting.rows, parting.meta) if parting.difference.rows_changed else (parting.meta, parting.rows)
        yield view.finding(
            RULE,
            parting.meta.node,
            f"`{shown(one)}` holds {verb} rows{place(view, change.term)} but `{shown(other)}` is of all of them as "
            f"they came{place(view, parting.measured.source)}, so the segments of one are not those of the other; make "
            "both after it",
            notes=[(parting.measured.source.node, "measured here"), (change.term.node, f"{verb} here")],
        )


RULE = Rule(
    "VL303",
    "lengths-before-selection",
    "stable",
    __doc__,
    check,
    valid=(
        # Nothing is left for a second filter.
        "import torch\nimport torch.nn.functional as F\n\n\ndef f(docs):\n    docs = [d for d in docs if len(d) > 0]\n"
        "    lens = torch.tensor([len(d) for d in docs])\n    docs = [d for d in docs if len(d) > 0]\n"
        "    return {'tokens': torch.cat(docs), 'cu_seqlens': F.pad(lens.cumsum(0), (1, 0))}\n",
        "import torch\nimport torch.nn.functional as F\n\n\ndef f(samples):\n    samples = sorted(samples, key=len)\n"
        "    lens = torch.tensor([len(s) for s in samples])\n"
        "    return {'tokens': torch.cat(samples), 'cu_seqlens': F.pad(lens.cumsum(0), (1, 0))}\n",
        "import torch\nimport torch.nn.functional as F\n\n\ndef f(docs, order):\n"
        "    kept = [(d, n) for d, n in docs if n > 1]\n    lens = torch.tensor([d.shape[0] for d, _ in kept])\n"
        "    return {'x': torch.cat([d for d, _ in kept]), 'cu_seqlens': F.pad(lens.cumsum(0), (1, 0))}\n",
        "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef reversed_within(q, k, cu, n):\n"
        "    q = torch.cat([q[a:b].flip(0) for a, b in zip(cu[:-1].tolist(), cu[1:].tolist())])\n"
        "    k = torch.cat([s.repeat_interleave(2, dim=1) for s in k.split(cu.diff().tolist())])\n"
        "    return flash_attn_varlen_func(q, k, k, cu, cu, n, n)\n",
    ),
    invalid=(
        Invalid(
            "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, lens, n):\n"
            "    cu = torch.tensor([0, *lens]).cumsum(0).int()\n"
            "    k = torch.cat([s.unflatten(0, (-1, 4)).mean(1) for s in k.split(lens)])\n"
            "    return flash_attn_varlen_func(q, k, k, cu, cu, n, n)\n",
            rows=(8,),
        ),
        Invalid(
            "import torch\nimport torch.nn.functional as F\n\n\ndef f(samples):\n"
            "    lens = torch.tensor([s['ids'].numel() for s in samples])\n"
            "    ordered = sorted(samples, key=lambda s: s['ids'].numel())\n"
            "    tokens = torch.cat([s['ids'] for s in ordered])\n"
            "    return {'tokens': tokens, 'cu_seqlens': F.pad(lens.cumsum(0), (1, 0))}\n",
            rows=(9,),
        ),
        Invalid(
            "import numpy as np\n\n\ndef f(docs):\n    bounds = np.cumsum([0] + [len(d) for d in docs])\n"
            "    docs = [d for d in docs if len(d) > 1]\n"
            "    return {'tokens': np.concatenate(docs), 'cu_seqlens': bounds}\n",
            rows=(7,),
        ),
    ),
)
