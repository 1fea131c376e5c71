"""The length of a sample cuts the batch axis of a padded mask.

### What it does
Finds loops over the lengths of samples that write `mask[:n]` into a padded batch, whose first axis is the samples.

### Why is this bad?
Every round marks whole samples, all tokens of them with the padding, and the number of a sample plays no part.

### Example
```python
mask = torch.zeros_like(padded_ids)
for n in lengths:
    mask[:n] = 1
```

### Use instead
```python
mask = torch.zeros_like(padded_ids)
for row, n in enumerate(lengths):
    mask[row, :n] = 1
```

### Fix safety
No fix.

### References
- [torch.nn.utils.rnn.pad_sequence](https://pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pad_sequence.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import length_of, plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.queries.padded_batch import is_padded_batch
from shapecheck.codemods.queries.rearranged import within
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL225."""
    for store in view.module.pool.by_op.get("store", ()):
        target, index, _ = store.args
        if index.op != "slice" or target.op != "round" or store.node is None or not within(view, store):
            continue
        ends = [end for end in index.args[:2] if not end.is_const(None)]
        if len(ends) == 1 and _is_length_of_item(ends[0]) and is_padded_batch(target):
            first = view.module.pool.first_round[target]
            yield view.finding(
                RULE,
                store.node,
                f"axis 0 of {named(view, first)} is the samples{view.line(first.node)}, but it is cut by the length of one; name the "
                "sample's row first: `[row, :n]`",
                notes=[(first.node, "a padded batch")],
            )


def _is_length_of_item(end: Term) -> bool:
    """Whether a number is the length of the sample of this round."""
    end = plain(end.args[0] if end.op == "USub" else end)
    length = length_of(end)
    return length is not None and any(inner.op == "elem" for inner in length.of.walk())


_HEAD = "import torch\nfrom torch.nn.utils.rnn import pad_sequence\n\n\n"

RULE = Rule(
    "VL225",
    "samples-cut-by-length",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def collate(samples):\n"
        "    input_ids = pad_sequence(samples, batch_first=True)\n"
        "    attention_mask = torch.zeros_like(input_ids)\n"
        "    for row, sample in enumerate(samples):\n"
        "        attention_mask[row, : len(sample)] = 1\n"
        "    return {'input_ids': input_ids, 'attention_mask': attention_mask}\n",
        # One packed row of tokens.
        _HEAD + "def count(samples, longest):\n"
        "    hits = torch.zeros(longest)\n"
        "    for sample in samples:\n"
        "        hits[: len(sample)] += 1\n"
        "    return hits, torch.cat(samples)\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def collate(samples):\n"
            "    input_ids = pad_sequence(samples, batch_first=True)\n"
            "    attention_mask = torch.zeros_like(input_ids)\n"
            "    for sample in samples:\n"
            "        attention_mask[: len(sample)] = 1\n"
            "    labels = torch.cat(samples)\n"
            "    lengths = [len(sample) for sample in samples]\n"
            "    return {'input_ids': input_ids, 'attention_mask': attention_mask}\n",
            rows=(9,),
        ),
        Invalid(
            _HEAD + "def marks(samples, width):\n"
            "    lengths = [s.shape[0] for s in samples]\n"
            "    loss_mask = torch.ones((len(samples), width), dtype=torch.bool)\n"
            "    for n in lengths:\n"
            "        loss_mask[n:] = False\n"
            "    return loss_mask\n",
            rows=(9,),
        ),
    ),
)
