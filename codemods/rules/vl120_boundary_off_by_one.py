"""Boundaries lie one row before or behind the starts of the segments.

### What it does

Reports boundaries made of the places that a comparison found, where these places are not the starts of the segments: element i of
`x.diff()` lies between rows i and i + 1, and the token that ends a document is still part of it.

### Why is this bad?

The last token of each segment is moved to the next one, whose tokens attend to it.

### Example

```python
jumps = (position_ids.diff() != 1).nonzero().flatten()
cu_seqlens = torch.cat([jumps.new_zeros(1), jumps, jumps.new_tensor([len(position_ids)])])
```

### Use instead

```python
jumps = (position_ids.diff() != 1).nonzero().flatten() + 1
cu_seqlens = torch.cat([jumps.new_zeros(1), jumps, jumps.new_tensor([len(position_ids)])])
```

### Fix safety

No fix: the places may be used elsewhere as they are.

### References

- [torch.diff](https://docs.pytorch.org/docs/stable/generated/torch.diff.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.joined_boundaries import joined
from shapecheck.codemods.queries.located import Located, located
from shapecheck.codemods.queries.slots import BOUNDS, slots
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_REASONS = {
    "gaps": "element i of the comparison is about rows i and i + 1, so a segment starts at i + 1",
    "ends": "the token that ends a document belongs to it, so the next one starts behind it",
    "starts": "a segment starts where its position is 0",
}


def check(view: View) -> Iterator[Finding]:
    """VL120."""
    if not _SOURCES & view.module.pool.by_op.keys():
        return
    seen: set[Term] = set()
    for slot in slots(view, BOUNDS):
        found = next((place for piece in joined(slot.term).pieces if (place := _beside(piece, view)) is not None), None)
        if found is None or found.term in seen:
            continue
        seen.add(found.term)
        side = "before" if found.early > 0 else "behind"
        yield view.finding(
            RULE,
            slot.node,
            f"{slot.shown} lies one row {side} the start of each segment: {_REASONS[found.kind]}{view.line(found.term.node)}; "
            f"{'add 1' if found.early > 0 else 'add nothing'}",
            notes=[(found.term.node, "the places that were found")],
        )


_SOURCES = {"nonzero", "each", "arange"}


def _beside(piece: Term, view: View) -> Located | None:
    found = located(piece, view)
    return found if found is not None and abs(found.early) == 1 else None


RULE = Rule(
    "VL120",
    "boundary-off-by-one",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef f(position_ids):\n    gaps = (position_ids.diff() != 1).nonzero().flatten() + 1\n"
        "    cu_seqlens = torch.cat([gaps.new_zeros(1), gaps, gaps.new_tensor([position_ids.numel()])])\n    return cu_seqlens\n",
        "import torch\n\n\ndef f(position_ids):\n    starts = (position_ids == 0).nonzero().flatten()\n"
        "    cu_seqlens = torch.cat([starts, starts.new_tensor([position_ids.numel()])])\n    return cu_seqlens\n",
        "def f(ids, eos):\n    cu_seqlens = [0]\n    for i, token in enumerate(ids):\n        if token == eos:\n"
        "            cu_seqlens.append(i + 1)\n    return cu_seqlens\n",
        "def f(ids, eos):\n    cu_seqlens = [0]\n    for i, token in enumerate(ids, start=1):\n        if token == eos:\n"
        "            cu_seqlens.append(i)\n    return cu_seqlens\n",
        "def f(tags):\n    cu_seqlens = [0] + [i for i in range(1, len(tags)) if tags[i] != tags[i - 1]] + [len(tags)]\n"
        "    return cu_seqlens\n",
        "import numpy as np\n\n\ndef f(doc_ids):\n    cu_seqlens = np.flatnonzero(np.diff(doc_ids, prepend=-1))\n"
        "    return np.append(cu_seqlens, len(doc_ids))\n",
        "import torch\n\n\ndef f(ids, eos):\n    last = (ids == eos).nonzero().flatten()\n    return {'last': last, 'ids': ids}\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef f(ids, eos_id):\n    ends = torch.where(ids == eos_id)[0]\n"
            "    cu_seqlens = torch.cat([ends.new_zeros(1), ends, ends.new_tensor([ids.numel()])])\n    return ids, cu_seqlens\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\n\n\ndef f(seq_idx):\n    jumps = (seq_idx[1:] != seq_idx[:-1]).nonzero(as_tuple=True)[0]\n"
            "    cu_seqlens = torch.nn.functional.pad(jumps, (1, 0))\n    return {'seq_idx': seq_idx, 'cu_seqlens': cu_seqlens}\n",
            rows=(7,),
        ),
        Invalid(
            "def f(ids, tokenizer):\n    cu_seqlens = [0]\n    for i, token in enumerate(ids):\n"
            "        if token == tokenizer.eos_token_id:\n            cu_seqlens.append(i)\n    cu_seqlens.append(len(ids))\n"
            "    return ids, cu_seqlens\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\n\n\ndef f(flat, position_ids):\n    fresh = (position_ids[1:] == 0).nonzero().view(-1)\n"
            "    edges = torch.zeros(fresh.numel() + 2, dtype=torch.int32)\n    edges[1:-1] = fresh\n    edges[-1] = flat.numel()\n"
            "    return {'x': flat, 'cu_seqlens': edges}\n",
            rows=(9,),
        ),
        Invalid(
            "def f(tags):\n    cu_seqlens = [0, *[i for i in range(len(tags) - 1) if tags[i] != tags[i + 1]], len(tags)]\n"
            "    return tags, cu_seqlens\n",
            rows=(3,),
        ),
    ),
)
