"""Boundaries were measured before rows were added to the segments.

### What it does
Follows boundaries back to the tensors they were measured on, and reports them where the rows beside them got padding,
special tokens or a class row afterwards. Padding behind the last segment is reported only where the consumer wants
exactly as many rows as the last boundary says, or where the rows and the boundaries leave the function together.

### Why is this bad?
From the first padded segment on, every boundary points into the segment before the one it is meant for. The shapes fit,
so nothing crashes: the attention mixes sequences.

### Example
```python
lens = [p.shape[0] for p in parts]
parts = [F.pad(p, (0, 0, 0, -p.shape[0] % 16)) for p in parts]
x, cu_seqlens = torch.cat(parts), F.pad(torch.tensor(lens).cumsum(0), (1, 0))
```

### Use instead
```python
parts = [F.pad(p, (0, 0, 0, -p.shape[0] % 16)) for p in parts]
lens = [p.shape[0] for p in parts]
x, cu_seqlens = torch.cat(parts), F.pad(torch.tensor(lens).cumsum(0), (1, 0))
```

### Fix safety
No fix: the measurement has to move behind the padding, or the padding needs a segment of its own.

### References
- [torch.nn.attention.varlen](https://docs.pytorch.org/docs/stable/nn.attention.varlen.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import Parting, pads_in_front, partings, place, shown, written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_FILLERS = {"full", "full_like", "list", "Mult"}


def check(view: View) -> Iterator[Finding]:
    """VL302."""
    for parting in partings(view):
        added = _added(parting)
        if added is None:
            continue
        source = parting.measured.source
        if parting.difference.kind == "changed" and not parting.difference.rows_changed:
            message = (
                f"`{shown(parting.meta)}` counts padded rows{place(view, source)} but `{shown(parting.rows)}` is "
                f"without that padding{place(view, added)}; pad both alike, or neither"
            )
        else:
            what = "padding" if added.op == "pad" else written(added, "further rows")
            message = (
                f"`{shown(parting.rows)}` got {what}{place(view, added)} that `{shown(parting.meta)}` does not count: "
                f"it was measured before{place(view, source)}; measure the padded rows, or give the padding its own "
                "segment"
            )
        yield view.finding(
            RULE, parting.meta.node, message, notes=[(source.node, "measured here"), (added.node, "rows added here")]
        )


def _added(parting: Parting) -> Term | None:
    """What the rows have more than the metadata counts (or less, where the metadata counts padding)."""
    found = parting.difference
    layout = parting.meta.role.startswith("padded")
    has_layout = any(member.role.startswith("padded") for member in parting.members)
    if has_layout and not layout:
        return None  # valid lengths; the layout has boundaries of its own
    if found.kind == "missing":
        each = found.part.each
        if not parting.measured.cumulative and not parting.leaves:
            return None
        if each or (parting.leaves and found.part.root.op in _FILLERS and not layout):
            return found.part.root
        return None
    change = found.change
    if found.kind != "changed" or change is None or change.kind not in {"pad", "align"}:
        return None
    if change.kind == "align":
        return None if layout or parting.leaves else parting.rows.term
    if not found.rows_changed:
        return None  # rows that were left out of the padding of their siblings: VL320
    if not parting.measured.cumulative and parting.leaves:
        return None  # valid lengths beside padded rows
    per_sample = parting.measured.axis not in {0, -1, None, "?"}  # rows of a batch: each sample is a segment
    if not parting.whole or per_sample or pads_in_front(change) or parting.exact:
        return change.term
    return change.term if parting.leaves else None


RULE = Rule(
    "VL302",
    "lengths-before-padding",
    "stable",
    __doc__,
    check,
    valid=(
        # The name says that these are the lengths of the prompts.
        "import torch\n\n\ndef f(prompts, answers):\n"
        "    input_ids = torch.cat([torch.cat([p, a]) for p, a in zip(prompts, answers)])\n"
        "    return {'input_ids': input_ids, 'prompt_lens': torch.tensor([len(p) for p in prompts])}\n",
        # The lengths of the other value that is given.
        "import torch\n\n\ndef f(block, encode, texts, images):\n"
        "    x = torch.cat([torch.cat([t, i]) for t, i in zip(texts, images)])\n    lens = torch.tensor([len(t) for t in texts])\n"
        "    return block(x, context=encode(torch.cat(texts), lens), context_lens=lens)\n",
        "import numpy as np\n\n\ndef maybe_empty(rows):\n    cu_seqlens = np.zeros(len(rows) + 1, dtype=np.int32)\n"
        "    np.cumsum([len(r) for r in rows], out=cu_seqlens[1:])\n"
        "    return np.concatenate([np.empty(0, dtype=np.int32), *rows]), cu_seqlens\n",
        "import torch\nimport torch.nn.functional as F\nfrom flash_attn import flash_attn_varlen_func\n\n\n"
        "def padded_features(q_parts, width, n):\n    lens = torch.tensor([p.shape[0] for p in q_parts])\n"
        "    cu = F.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))\n"
        "    q = torch.cat([F.pad(p, (0, width)) for p in q_parts])\n"
        "    return flash_attn_varlen_func(q, q, q, cu, cu, n, n)\n",
        "import torch\nimport torch.nn.functional as F\n\n\ndef f(parts):\n"
        "    parts = [F.pad(p, (0, 0, 0, -p.shape[0] % 16)) for p in parts]\n    lens = [p.shape[0] for p in parts]\n"
        "    return {'hidden_states': torch.cat(parts), 'cu_seqlens': F.pad(torch.tensor(lens).cumsum(0), (1, 0))}\n",
        "import torch\nimport torch.nn.functional as F\nfrom flash_attn import flash_attn_varlen_func\n\n\n"
        "def rows_behind_the_last_boundary(docs, extra, n):\n    lens = torch.tensor([d.shape[0] for d in docs])\n"
        "    cu = F.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))\n"
        "    x = F.pad(torch.cat(docs), (0, 0, 0, 0, 0, extra))\n"
        "    return flash_attn_varlen_func(x, x, x, cu, cu, n, n)\n",
        "import torch\nimport torch.nn.functional as F\n\n\ndef valid_lengths_of_a_padded_batch(seqs, width):\n"
        "    lens = [s.shape[0] for s in seqs]\n    rows = [F.pad(s, (0, width - s.shape[0])) for s in seqs]\n"
        "    return {'input_ids': torch.stack(rows), 'lengths': torch.tensor(lens)}\n",
        "import torch\n\n\ndef next_tokens(samples, fill):\n    labels = [[*s['labels'][1:], fill] for s in samples]\n"
        "    lens = torch.tensor([len(s['ids']) for s in samples])\n"
        "    ids = torch.cat([torch.tensor(s['ids']) for s in samples])\n"
        "    return {'input_ids': ids, 'labels': torch.tensor(sum(labels, [])), 'lengths': lens}\n",
    ),
    invalid=(
        Invalid(
            "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, sink, cu, n):\n"
            "    k = torch.cat([torch.cat([sink, k[a:b]]) for a, b in zip(cu[:-1].tolist(), cu[1:].tolist())])\n"
            "    return flash_attn_varlen_func(q, k, k, cu, cu, n, n)\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\nimport torch.nn.functional as F\n\n\ndef f(parts):\n    lens = [p.shape[0] for p in parts]\n"
            "    parts = [F.pad(p, (0, 0, 0, -p.shape[0] % 16)) for p in parts]\n"
            "    return {'hidden_states': torch.cat(parts), 'cu_seqlens': F.pad(torch.tensor(lens).cumsum(0), (1, "
            "0))}\n",
            rows=(8,),
        ),
        Invalid(
            "import numpy as np\n\n\ndef f(texts, encode, bos, eos):\n    stream, lens = [], []\n"
            "    for text in texts:\n"
            "        ids = encode(text)\n        lens.append(len(ids))\n        stream.extend([bos, *ids, eos])\n"
            "    return {'tokens': np.array(stream), 'cu_seqlens': np.concatenate([[0], np.cumsum(lens)])}\n",
            rows=(10,),
        ),
        Invalid(
            "import torch\n\n\nclass Tower(torch.nn.Module):\n    def forward(self, images):\n"
            "        rows = [self.embed(image) for image in images]\n        counts = [r.shape[0] for r in rows]\n"
            "        x = torch.cat([torch.cat([self.cls, r]) for r in rows])\n"
            "        cu_seqlens = torch.tensor([0, *counts]).cumsum(0)\n"
            "        return self.block(x, cu_seqlens=cu_seqlens)\n",
            rows=(10,),
        ),
        Invalid(
            "from torch.nn.attention.flex_attention import create_block_mask, flex_attention\n\n\n"
            "def f(q, k, v, same, block):\n    n = q.shape[2]\n    rounded = (n + block - 1) // block * block\n"
            "    mask = create_block_mask(same, None, None, rounded, rounded)\n"
            "    return flex_attention(q, k, v, block_mask=mask)\n",
            rows=(8,),
        ),
    ),
)
