"""Labels are shifted over a packed stream as if it were one sequence.

### What it does
Finds rows of several samples (joined, or unpadded by a mask) that are shifted as a whole by `roll` or by `labels[1:]` plus filler, and
that then travel with metadata of the segments or go into a loss.

### Why is this bad?
The last token of each segment gets the first token of the next segment as its label. The loss is a little wrong for each sample, and
most wrong for short ones.

### Example
```python
labels = torch.cat([s["labels"] for s in samples])
labels = torch.roll(labels, -1)
```

### Use instead
```python
labels = torch.cat([F.pad(s["labels"][1:], (0, 1), value=-100) for s in samples])
```

### Fix safety
No fix: either the samples are shifted one by one, or the labels at the ends are masked.

### References
- [cross_entropy: ignore_index](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import length_of
from shapecheck.codemods.engine.describe.shifted import Shifted, behind_first, shifted
from shapecheck.codemods.engine.describe.tags import per_row_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.companions import Company, companies
from shapecheck.codemods.queries.covers import packed_parts
from shapecheck.codemods.queries.naming import named, part_name
from shapecheck.codemods.queries.rearranged import last_gather
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_SEGMENTS = frozenset(
    [
        "bounds",
        "bounds_q",
        "bounds_k",
        "ends_q",
        "ends_k",
        "padded",
        "padded_q",
        "padded_k",
        "tags",
        "tags_q",
        "tags_k",
    ]
)
_LOSSES = {"cross_entropy", "nll_loss", "CrossEntropyLoss"}


def check(view: View) -> Iterator[Finding]:
    """VL207."""
    by_op = view.module.pool.by_op
    if not any(op in by_op for op in ("roll", "cat", "pad", "Add")):
        return
    seen: set[Term] = set()
    for company in companies(view):
        for member in company.members:
            found = shifted(member.term)
            if found is None and company.call is not None and company.call.name in _LOSSES:
                found = _without_first(member.term)
            if found is None or found.whole in seen or found.whole.node is None:
                continue
            stream = _stream(view, found.source)
            if stream is not None and _in_segments(company, member.term, found.source):
                seen.add(found.whole)
                yield view.finding(
                    RULE,
                    found.whole.node,
                    f"{named(view, found.source)} {stream}, and is shifted as one sequence: the last token of each gets the first one of "
                    "the next as its label; shift each by itself, or mask the label at each end",
                    notes=[(found.source.node, "the stream")],
                )


def _without_first(term: Term) -> Shifted | None:
    """`loss(logits[:-1], labels[1:])` shifts too."""
    source = behind_first(term)
    return None if source is None else Shifted(term, source)


def _stream(view: View, source: Term) -> str | None:
    """Why a value certainly holds several sequences one after the other."""
    parts = packed_parts(source)
    if len(parts) == 1 and parts[0].each:
        return f"was joined from {part_name(view, parts[0])}{view.line(source.node)}"
    picked = last_gather(source)
    if picked is not None and picked.op == "mask_indices":
        return f"holds the unpadded sequences of a batch{view.line(picked.node)}"
    return None


def _in_segments(company: Company, stream: Term, source: Term) -> bool:
    """Whether the segments matter here: their metadata travels along, or the loss is taken."""
    if company.call is not None and company.call.name in _LOSSES:
        return True
    for member in company.members:
        if member.term is stream or member.term.is_const(None):
            continue
        if member.role in _SEGMENTS or (member.role.startswith("lens") and _counts(member.term, source)):
            return True
        if member.role == "positions" and (found := per_row_of(member.term)) is not None and found.kind == "positions":
            return True
    return False


def _counts(lengths: Term, source: Term) -> bool:
    """Whether a list of lengths has one for each sample of the stream: a sequence may have lengths of its images beside it."""
    samples = {inner for part in packed_parts(source) for inner in part.root.walk() if inner.op == "elem"}
    measured = [
        inner.args[0] for inner in lengths.walk() if inner.op == "each" and length_of(inner.args[0]) is not None
    ]
    return any(inner in samples for one in measured for inner in one.walk())


_HEAD = "import torch\nimport torch.nn.functional as F\n\n\n"

RULE = Rule(
    "VL207",
    "shift-across-segments",
    "stable",
    __doc__,
    check,
    valid=(
        # Each sample is shifted by itself.
        _HEAD + "def pack(samples):\n"
        "    labels = torch.cat([torch.cat([s['labels'][1:], s['labels'].new_full((1,), -100)]) for s in samples])\n"
        "    lengths = torch.tensor([len(s['ids']) for s in samples])\n"
        "    return {'input_ids': torch.cat([s['ids'] for s in samples]), 'labels': labels, 'seq_lens': lengths}\n",
        # The labels at the ends are masked.
        _HEAD + "def pack(samples, cu_seqlens):\n"
        "    labels = torch.roll(torch.cat([s['labels'] for s in samples]), -1)\n"
        "    labels[cu_seqlens[1:] - 1] = -100\n"
        "    return {'labels': labels, 'cu_seqlens': cu_seqlens}\n",
        # One sequence of several parts, with the lengths of something else beside it.
        "import numpy as np\n\n\ndef build(parts, clips):\n    ids = []\n    for part in parts:\n        ids.extend(part)\n"
        "    labels = np.roll(ids, shift=-1)\n    labels[-1] = 0\n"
        "    return {'input_ids': ids, 'labels': labels, 'audio_token_lens': [len(c) for c in clips]}\n",
        # One sample in each row.
        _HEAD + "def shift(batch):\n"
        "    labels = torch.roll(batch['labels'], -1, dims=1)\n"
        "    labels[:, -1] = -100\n"
        "    return {'input_ids': batch['input_ids'], 'labels': labels, 'seq_lens': batch['seq_lens']}\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def pack(samples):\n"
            "    lengths = torch.tensor([len(s['ids']) for s in samples])\n"
            "    labels = torch.cat([s['labels'] for s in samples])\n"
            "    labels = F.pad(labels[1:], (0, 1), value=-100)\n"
            "    return {'input_ids': torch.cat([s['ids'] for s in samples]), 'labels': labels, 'seq_lens': lengths}\n",
            rows=(8,),
        ),
        Invalid(
            "from flash_attn.bert_padding import unpad_input\n" + _HEAD + "def loss(model, ids, attention_mask):\n"
            "    rows, indices, cu_seqlens, longest, *_ = unpad_input(ids.unsqueeze(-1), attention_mask)\n"
            "    labels = torch.roll(rows, -1, dims=0).squeeze(-1)\n"
            "    return F.cross_entropy(model(rows, cu_seqlens, longest), labels)\n",
            rows=(8,),
        ),
        Invalid(
            _HEAD + "def pack(samples):\n"
            "    tokens = torch.cat([s['tokens'] for s in samples])\n"
            "    position_ids = torch.cat([torch.arange(len(s['tokens'])) for s in samples])\n"
            "    labels = tokens.clone()\n"
            "    labels[:-1] = tokens[1:]\n"
            "    labels[-1] = -100\n"
            "    return tokens, labels, position_ids\n",
            rows=(9,),
        ),
        Invalid(
            "def pack(samples):\n"
            "    ids, labels, position_ids = [], [], []\n"
            "    for s in samples:\n"
            "        ids.extend(s['ids'])\n"
            "        labels.extend(s['labels'])\n"
            "        position_ids.extend(range(len(s['ids'])))\n"
            "    return {'input_ids': ids, 'labels': labels[1:] + [-100], 'position_ids': position_ids}\n",
            rows=(7,),
        ),
    ),
)
