"""Boundaries or lengths were measured before the rows were cut.

### What it does
Follows boundaries and lengths back to the tensors they were measured on, and reports them where the rows beside them
were sliced, narrowed or split afterwards.

### Why is this bad?
The metadata counts rows that are gone. Kernels read past the end of the tensor or give each later segment the rows of
its neighbour; samplers and packers plan with lengths that no sample has.

### Example
```python
kv_lens = [m.shape[0] for m in memories]
kv = torch.cat([m[-window:] for m in memories])
cu_seqlens_k = F.pad(torch.tensor(kv_lens).cumsum(0), (1, 0))
```

### Use instead
```python
memories = [m[-window:] for m in memories]
kv_lens = [m.shape[0] for m in memories]
kv = torch.cat(memories)
cu_seqlens_k = F.pad(torch.tensor(kv_lens).cumsum(0), (1, 0))
```

### Fix safety
No fix: the measurement has to move behind the cut, which may take other statements along.

### References
- [torch.nn.attention.varlen](https://docs.pytorch.org/docs/stable/nn.attention.varlen.html)
- [xformers#1122](https://github.com/facebookresearch/xformers/issues/1122)
- [ms-swift#5665](https://github.com/modelscope/ms-swift/pull/5665)
"""

from collections.abc import Iterator

from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import is_shift, partings, place, shown
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL301."""
    for parting in partings(view):
        change = parting.change
        if change is None or change.kind not in {"slice", "piece"} or not parting.difference.rows_changed:
            continue
        counted = parting.measured
        if parting.leaves and not counted.cumulative and counted.source.op not in {"len", "shape", "numel"}:
            continue  # lengths of each sample may count what was processed before as well
        if is_shift(change) and not parting.measured.cumulative:
            continue  # `length` beside next-token pairs: one less is what the reader knows
        kind = "boundaries count" if parting.measured.cumulative else "length counts"
        verb = "is a piece of the rows" if change.kind == "piece" else "was cut"
        yield view.finding(
            RULE,
            parting.meta.node,
            f"`{shown(parting.rows)}` {verb}{place(view, change.term)} but `{shown(parting.meta)}` was measured on the "
            f"uncut rows{place(view, parting.measured.source)}, so its {kind} rows that are not there; measure after "
            "the cut",
            notes=[(parting.measured.source.node, "measured here"), (change.term.node, "cut here")],
        )


RULE = Rule(
    "VL301",
    "lengths-before-truncation",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef new_tokens(requests):\n    seq_lens = [len(r.ids) for r in requests]\n"
        "    ids = [r.ids[len(r.prefix) :] for r in requests]\n"
        "    return {'input_ids': torch.cat(ids), 'seq_lens': torch.tensor(seq_lens)}\n",
        "import torch\n\n\ndef both_cut(parts, lens, limit):\n    if limit:\n        parts = [p[:limit] for p in parts]\n"
        "        lens = [min(n, limit) for n in lens]\n"
        "    return {'tokens': torch.cat(parts), 'cu_seqlens': torch.tensor([0, *lens]).cumsum(0)}\n",
        "import torch\nimport torch.nn.functional as F\nfrom flash_attn import flash_attn_varlen_func\n\n\n"
        "def halves_of_features(parts, to_qkv, n):\n"
        "    cu = F.pad(torch.tensor([p.shape[0] for p in parts]).cumsum(0), (1, 0)).int()\n"
        "    x = to_qkv(torch.cat(parts))\n    q, k = x[:, :64], x[:, 64:]\n"
        "    return flash_attn_varlen_func(q, k, k, cu, cu, n, n)\n",
        "import torch\nimport torch.nn.functional as F\n\n\ndef f(docs, budget):\n"
        "    docs = [d[:budget] for d in docs]\n    lens = torch.tensor([d.numel() for d in docs])\n"
        "    return {'tokens': torch.cat(docs), 'cu_seqlens': F.pad(lens.cumsum(0), (1, 0))}\n",
        # A second cut to the same or a larger limit does nothing.
        "import torch\nimport torch.nn.functional as F\n\n\ndef f(docs, budget):\n"
        "    docs = [d[:budget] for d in docs]\n    lens = torch.tensor([d.numel() for d in docs])\n    docs = [d[:budget] for d in docs]\n"
        "    return {'tokens': torch.cat(docs), 'cu_seqlens': F.pad(lens.cumsum(0), (1, 0))}\n",
        "import torch\nimport torch.nn.functional as F\n\n\ndef f(docs):\n"
        "    docs = [d[:64] for d in docs]\n    lens = torch.tensor([d.numel() for d in docs])\n"
        "    return {'tokens': torch.cat([d[:128] for d in docs]), 'cu_seqlens': F.pad(lens.cumsum(0), (1, 0))}\n",
        "import torch\nimport torch.nn.functional as F\n\n\ndef trimmed_to_total(docs):\n"
        "    lens = torch.tensor([d.numel() for d in docs])\n    cu_seqlens = F.pad(lens.cumsum(0), (1, 0))\n"
        "    tokens = torch.cat(docs)[: int(cu_seqlens[-1])]\n"
        "    return {'tokens': tokens, 'cu_seqlens': cu_seqlens}\n",
        "def features(x, keep):\n    n = x.shape[0]\n    x = x[:, :keep]\n    return {'x': x, 'length': n}\n",
        "def next_token(ids):\n    return {'input_ids': ids[:-1], 'labels': ids[1:], 'length': len(ids)}\n",
    ),
    invalid=(
        Invalid(
            "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, cu, n, window):\n"
            "    k = torch.cat([k[max(a, b - window) : b] for a, b in zip(cu[:-1].tolist(), cu[1:].tolist())])\n"
            "    return flash_attn_varlen_func(q, k, k, cu, cu, n, n)\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\nimport torch.nn.functional as F\n\n\ndef f(docs, budget):\n"
            "    lens = torch.tensor([d.numel() for d in docs])\n    tokens = torch.cat(docs)[:budget]\n"
            "    return {'tokens': tokens, 'cu_seqlens': F.pad(lens.cumsum(0), (1, 0))}\n",
            rows=(8,),
        ),
        Invalid(
            "def encode(tokenizer, text, limit):\n    ids = tokenizer(text)\n    row = {'length': len(ids)}\n"
            "    if len(ids) > limit:\n        ids = ids[:limit]\n    row['input_ids'] = ids\n    return row\n",
            rows=(3,),
        ),
        Invalid(
            "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, rows):\n"
            "    cu_k = torch.tensor([0, k.shape[0]], dtype=torch.int32)\n"
            "    cu_q = torch.tensor([0, q.shape[0]], dtype=torch.int32)\n"
            "    return [flash_attn_varlen_func(part, k, v, cu_q, cu_k, rows, k.shape[0]) for part in q.split(rows)]\n",
            rows=(8,),
        ),
        Invalid(
            "from xformers.ops import memory_efficient_attention\nfrom xformers.ops.fmha import BlockDiagonalMask\n\n\n"
            "def f(q, context, to_k, to_v, keep):\n"
            "    bias = BlockDiagonalMask.from_seqlens([q.shape[1]], [context.shape[1]])\n"
            "    context = context[:, :keep]\n"
            "    return memory_efficient_attention(q, to_k(context), to_v(context), attn_bias=bias)\n",
            rows=(8,),
        ),
    ),
)
