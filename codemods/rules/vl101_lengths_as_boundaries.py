"""Segment lengths are given where cumulative boundaries belong.

### What it does
Follows the value in a boundary argument back to where it was made and reports it if it is a list of lengths that was never
cumulated, with or without a zero in front.

### Why is this bad?
`cu_seqlens` counts rows from the start of the stream. Lengths in its place make segments overlap, run backwards and leave most rows
out; the kernel reads them without complaint.

### Example
```python
lens = mask.sum(-1, dtype=torch.int32)
cu_seqlens = F.pad(lens, (1, 0))
out = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, longest, longest)
```

### Use instead
```python
lens = mask.sum(-1, dtype=torch.int32)
cu_seqlens = F.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))
out = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, longest, longest)
```

### Fix safety
No fix: whether the lengths need a cumulative sum, a zero in front or both depends on what else uses them.

### References
- [flash-attention: variable-length interface](https://github.com/Dao-AILab/flash-attention)
"""

from collections.abc import Iterator

from shapecheck.codemods.compare import worlds
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.changed_in_place import may_be_changed
from shapecheck.codemods.queries.slots import BOUNDS, ENDS, Slot, slots
from shapecheck.codemods.queries.uncumulated import Uncumulated, certainly_lengths, uncumulated
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_CUTTING = {"tensor_split", "array_split"}


def check(view: View) -> Iterator[Finding]:
    """VL101."""
    seen: set[Term] = set()
    for slot in slots(view, BOUNDS | ENDS):
        is_ends = slot.argument.role in ENDS
        if is_ends and not _counts_ends(slot.call.kwargs if slot.call is not None else {}):
            continue
        found = _found(slot, view)
        if found is None or found.lens in seen or (slot.guessed and not found.zeros) or may_be_changed(view, slot.term):
            continue
        seen.add(found.lens)
        wanted = "the cumulative ends of the segments" if is_ends else "cumulative boundaries that start with 0"
        zeros = " with a zero in front" if found.zeros else ""
        use = "their cumulative sum" if is_ends else "`F.pad(lens.cumsum(0), (1, 0))`"
        yield view.finding(
            RULE,
            slot.node,
            f"{slot.taker} expects {wanted}, but {slot.shown} holds the segment lengths{view.line(found.lens.node)}{zeros}, which "
            f"were never cumulated; pass {use}",
            notes=[(found.lens.node, "lengths that are not cumulated")],
        )
    yield from _cuts(view)


def _cuts(view: View) -> Iterator[Finding]:
    """`tensor_split(x, lens)`: it takes the places to cut at, not the sizes."""
    for call in view.calls:
        if call.name not in _CUTTING and call.path != "numpy.split":
            continue
        at = 1 if call.receiver is None else 0
        node = call.arg_node(at, "indices_or_sections")
        term = call.kwargs.get("indices_or_sections") or (call.args[at] if at < len(call.args) else None)
        if node is not None and term is not None and certainly_lengths(plain(term)):
            yield view.finding(
                RULE,
                node,
                f"`{call.name}` takes the places to cut at, but this holds the length of each part{view.line(term.node)}; "
                "pass their cumulative sum without the last, or use `split` of torch",
                notes=[(term.node, "lengths that are not cumulated")],
            )


def _found(slot: Slot, view: View) -> Uncumulated | None:
    certain = slot.sink is not None or slot.argument.role in ENDS
    for (world,) in worlds(slot.term):
        found = uncumulated(world, view, certain_callee=certain)
        if found is not None:
            return found
    return None


def _counts_ends(kwargs: dict[str, Term]) -> bool:
    """Whether the NPU layout has no batch axis, so that lengths are given as cumulative ends."""
    layout = kwargs.get("input_layout")
    return layout is not None and layout.is_const("TND")


RULE = Rule(
    "VL101",
    "lengths-as-boundaries",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\nimport torch.nn.functional as F\n\n\ndef f(block, x, mask):\n"
        "    lens = mask.sum(-1, dtype=torch.int32)\n"
        "    cu_seqlens = F.pad(lens, (1, 0)).cumsum(0, dtype=torch.int32)\n"
        "    return block(x, cu_seqlens=cu_seqlens)\n",
        "import torch\n\n\ndef f(block, cumulate_, x, parts):\n"
        "    cu_seqlens = torch.tensor([0, *(part.shape[0] for part in parts)])\n    cumulate_(cu_seqlens)\n"
        "    return block(x, cu_seqlens=cu_seqlens)\n",
        "def f(docs):\n    tokens, cu_seqlens = [], [0]\n    for doc in docs:\n        tokens += doc\n"
        "        cu_seqlens.append(len(tokens))\n    return {'tokens': tokens, 'cu_seqlens': cu_seqlens}\n",
        "def f(block, x, parts):\n    cu_seqlens = [0]\n    for part in parts:\n"
        "        cu_seqlens.append(cu_seqlens[-1] + part.shape[0])\n    return block(x, cu_seqlens=cu_seqlens)\n",
        "import torch\n\n\ndef f(block, x, seq_lens, longest):\n"
        "    cu_seqlens = torch.cat((seq_lens.new_zeros(1), seq_lens))  # one sequence\n"
        "    return block(x, cu_seqlens=cu_seqlens, max_seqlen=longest)\n",
        "import torch\n\n\ndef f(block, text, x):\n"
        "    cu_seqlens = torch.tensor([0, text.shape[0], x.shape[0]])\n    return block(x, cu_seqlens=cu_seqlens)\n",
        # All documents as one segment.
        "import torch\n\n\ndef f(docs):\n    tokens = torch.cat(docs)\n"
        "    return {'tokens': tokens, 'cu_seqlens': torch.tensor([0, tokens.shape[0]])}\n",
        "import torch_npu\n\n\ndef f(q, k, v, parts):\n    lens = [part.shape[0] for part in parts]\n"
        '    return torch_npu.npu_fused_infer_attention_score(q, k, v, input_layout="BSND", actual_seq_lengths=lens)\n',
        "import torch\n\n\ndef f(block, x, docs, m):\n    sizes = [(len(d) + m - 1) // m * m for d in docs]\n"
        "    return block(x, cu_seqlens=torch.tensor([0] + sizes).cumsum(0), max_seqlen=max(sizes))\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef f(block, x, docs, m):\n    sizes = [(len(d) + m - 1) // m * m for d in docs]\n"
            "    return block(x, cu_seqlens=torch.tensor([0] + sizes), max_seqlen=max(sizes))\n",
            rows=(6,),
        ),
        Invalid(
            "import torch\nimport torch.nn.functional as F\n\n\ndef f(block, x, grid):\n"
            "    area = grid[:, 1] * grid[:, 2]\n"
            "    cu_seqlens = F.pad(torch.repeat_interleave(area, grid[:, 0]), (1, 0))\n"
            "    return block(x, cu_seqlens=cu_seqlens)\n",
            rows=(8,),
        ),
        Invalid(
            "from flash_attn import flash_attn_varlen_qkvpacked_func\n\n\ndef f(qkv, attention_mask):\n"
            "    lens = attention_mask.sum(-1)\n"
            "    return flash_attn_varlen_qkvpacked_func(qkv, lens.int(), int(lens.max()))\n",
            rows=(6,),
        ),
        Invalid(
            "import torch\nfrom torch.nn.functional import pad\n\n\ndef f(block, x, seq_lens):\n"
            "    return block(x, cu_seqlens=pad(seq_lens, (1, 0)), max_seqlen=int(seq_lens.max()))\n",
            rows=(6,),
        ),
        Invalid(
            "import torch\n\n\ndef f(x, parts):\n    seqlens = [part.shape[0] for part in parts]\n"
            "    return torch.tensor_split(x, seqlens)\n",
            rows=(6,),
        ),
        Invalid(
            "import torch\n\n\ndef collate(samples):\n    cu_seqlens = [0]\n    ids = []\n    for sample in samples:\n"
            '        ids += sample["input_ids"]\n        cu_seqlens.append(len(sample["input_ids"]))\n'
            '    return {"input_ids": torch.tensor(ids), "cu_seqlens": torch.tensor(cu_seqlens)}\n',
            rows=(10,),
        ),
    ),
)
