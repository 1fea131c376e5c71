"""All per-token fields but one were cut, padded, picked or shifted.

### What it does
Compares the per-token fields of one object that travel together: a returned dict, the arguments of a constructor, the
keys of a batch, fields that were joined sample by sample. Where all but one got the same slice, padding, selection,
shard or roll, it reports the one that was left out; also where it is a field that a dataclass or a list of keys in the
same class names beside the others.

### Why is this bad?
The field that was left out describes other tokens than its siblings. Where the shapes still fit, the loss is computed
with the weights of other tokens.

### Example
```python
return Row(tokens=row.tokens[a:b], labels=row.labels[a:b], loss_weights=row.loss_weights)
```

### Use instead
```python
return Row(tokens=row.tokens[a:b], labels=row.labels[a:b], loss_weights=row.loss_weights[a:b])
```

### Fix safety
No fix: the right fill value or axis for the field is not known.

### References
- [trl#5178](https://github.com/huggingface/trl/pull/5178)
"""

from collections.abc import Iterator

from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries import batched, listed_keys, unsharded
from shapecheck.codemods.queries.partings import is_shift, place, shown
from shapecheck.codemods.queries.siblings import LeftOut, left_out
from shapecheck.codemods.queries.words import words
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_NEXT = {"labels", "label", "targets", "target", "next"}
_VERBS = {
    "slice": "cut",
    "narrow": "cut",
    "pick": "reduced to picked rows",
    "filter": "reduced to some samples",
    "items": "reduced to some samples",
    "sort": "sorted",
    "pad": "padded",
    "roll": "rolled",
    "unpad": "stripped of padding",
    "shard": "cut to one rank's shard",
}


def check(view: View) -> Iterator[Finding]:
    """VL320."""
    for found in (*left_out(view), *batched.not_cut(view), *listed_keys.not_cut(view), *unsharded.not_cut(view)):
        if _may_be_shifted(found) or _may_be_shared(found):
            continue
        names = ", ".join(f"`{shown(sibling)}`" for sibling in found.changed[:3])
        is_choice = found.change.detail and found.change.detail[0].op == "phi"  # one of two slices
        verb = "cut" if is_choice else _VERBS[found.change.kind]
        yield view.finding(
            RULE,
            found.field.node,
            f"{names} were {verb}{place(view, found.change.term)} but `{shown(found.field)}`, which has an entry for "
            "the same tokens, was not; do the same to it",
            notes=[(found.change.term.node, f"siblings {verb} here")],
        )


def _may_be_shifted(found: LeftOut) -> bool:
    """Whether the others lost one token at an end and the field holds the next tokens, which may have been made so."""
    return is_shift(found.change) and not words(shown(found.field)).isdisjoint(_NEXT)


def _may_be_shared(found: LeftOut) -> bool:
    """Whether samples were picked beside position ids, of which there may be one row for all samples."""
    return found.change.kind == "pick" and found.field.role == "positions" and found.change.term.op == "item"


RULE = Rule(
    "VL320",
    "field-left-out",
    "stable",
    __doc__,
    check,
    valid=(
        # Everything is cut alike, or the positions are those of the whole.
        "import torch\n\n\ndef finish(prompt, answer, limit):\n    tokens = prompt + [answer]\n    mask = [1] * len(tokens)\n"
        "    return {'input_ids': tokens[:limit], 'attention_mask': mask[:limit], 'loss_mask': mask[:limit]}\n",
        # The targets may have been made for all tokens but the last.
        "def inputs(batch):\n    return {'input_ids': batch['input_ids'][:, :-1], 'attention_mask': batch['attention_mask'][:, :-1],\n"
        "        'targets': batch['targets']}\n",
        # Samples are picked; the positions may be one row for all of them.
        "def pick(batch, keep):\n    return {'input_ids': batch['input_ids'][keep], 'attention_mask': batch['attention_mask'][keep],\n"
        "        'labels': batch['labels'][keep], 'position_ids': batch['position_ids']}\n",
        # The logits of all ranks meet the whole labels.
        "def cut(batch, rank, size):\n    out = dict(batch)\n"
        "    for key in ('input_ids', 'position_ids'):\n"
        "        out[key] = batch[key].chunk(size, dim=1)[rank]\n    return out\n\n\n"
        "def loss(model, batch, rank, size, criterion, all_gather):\n    mine = cut(batch, rank, size)\n"
        "    logits = all_gather(model(mine['input_ids'], mine['position_ids']))\n"
        "    return criterion(logits, mine['labels'])\n",
        "def prompt_and_completion(batch, n):\n    return {'prompt_ids': batch['prompt_ids'][:, -n:],\n"
        "        'prompt_mask': batch['prompt_mask'][:, -n:], 'completion_ids': batch['completion_ids']}\n",
        "def f(batch, cut):\n    return {'tokens': batch['tokens'][:cut], 'labels': batch['labels'][:cut],\n"
        "        'loss_mask': batch['loss_mask'][:cut], 'temperature': batch['temperature']}\n",
        "def shifted(row):\n"
        "    return {'input_ids': row['ids'][:-1], 'labels': row['ids'][1:], 'loss_mask': row['loss_mask'][1:]}\n",
        "def f(batch, n):\n    labels = batch['labels'][:, :n]\n"
        "    return {'input_ids': batch['input_ids'][:, :n], 'labels': labels, 'loss_mask': (labels != -100).float()}\n",
        "def by_key(batch, n):\n    out = {'input_ids': batch['input_ids'][:, :n]}\n"
        "    out['labels'] = batch['labels'][:, :n]\n    for key in ('token_type_ids', 'pixels'):\n"
        "        out[key] = batch[key][:, :n] if key == 'token_type_ids' else batch[key]\n    return out\n",
        "def rank(batch, at, n):\n    a = at * n\n    return {'input_ids': batch['input_ids'][:, a : a + n],\n"
        "        'labels': batch['labels'][:, a : a + n], 'position_ids': batch['position_ids']}\n",
        "import torch\n\n\ndef pack(rows, fill):\n    ids = torch.cat([torch.tensor(r['ids']) for r in rows])\n"
        "    labels = torch.cat([torch.tensor(r['labels'][1:] + [fill]) for r in rows])\n"
        "    return {'input_ids': ids, 'labels': labels}\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef finish(prompt, answer, limit):\n    tokens = prompt + [answer]\n"
            "    mask, position_ids = [1] * len(tokens), list(range(len(tokens)))\n"
            "    return {'input_ids': tokens, 'attention_mask': mask[:limit], 'position_ids': position_ids[:limit]}\n",
            rows=(7,),
        ),
        Invalid(
            "def cut(batch, rank, size):\n    out = dict(batch)\n"
            "    for key in ('input_ids', 'position_ids'):\n"
            "        out[key] = batch[key].chunk(size, dim=1)[rank]\n    return out\n\n\n"
            "def loss(model, batch, rank, size, criterion):\n    mine = cut(batch, rank, size)\n"
            "    logits = model(mine['input_ids'], mine['position_ids'])\n"
            "    return criterion(logits, mine['labels'])\n",
            rows=(4,),
        ),
        Invalid(
            "import torch\n\n\ndef f(samples):\n    kept = [s for s in samples if s['reward'] > 0]\n"
            "    ids = torch.cat([s['input_ids'] for s in kept])\n    labels = torch.cat([s['labels'] for s in samples])\n"
            "    return {\n        'input_ids': ids,\n        'labels': labels,\n    }\n",
            rows=(10,),
        ),
        Invalid(
            "from torch.nn.utils.rnn import pad_sequence\n\n\ndef collate(rows, n):\n"
            "    ids = pad_sequence([r['input_ids'][:n] for r in rows], batch_first=True)\n"
            "    weights = pad_sequence([r['loss_weights'] for r in rows], batch_first=True)\n"
            "    return {'input_ids': ids, 'loss_weights': weights}\n",
            rows=(7,),
        ),
        Invalid(
            "class Mixin:\n    def cut(self, row):\n        row['input_ids'] = row['input_ids'][: self.n]\n"
            "        row['labels'] = row['labels'][: self.n]\n        return row\n\n    def collate(self, rows):\n"
            "        out = {}\n        for name in ('input_ids', 'labels', 'token_type_ids'):\n"
            "            out[name] = [row[name] for row in rows]\n        return out\n",
            rows=(4,),
        ),
        Invalid(
            "def f(row, a, b):\n    return dict(\n        tokens=row.tokens[a:b],\n        labels=row.labels[a:b],\n"
            "        loss_weights=row.loss_weights,\n    )\n",
            rows=(5,),
        ),
        Invalid(
            "import torch.nn.functional as F\n\n\ndef f(batch, pad, criterion):\n"
            "    for key in ('input_ids', 'labels', 'position_ids'):\n"
            "        batch[key] = F.pad(batch[key], (0, pad))\n"
            "    losses = criterion(batch['input_ids'], batch['labels'])\n"
            "    return (losses * batch['loss_mask'].flatten()).sum()\n",
            rows=(8,),
        ),
        Invalid(
            "def f(tokenize, text, keep):\n    input_ids, labels, token_type_ids = tokenize(text)\n"
            "    input_ids = [input_ids[i] for i in keep]\n    labels = [labels[i] for i in keep]\n"
            "    return {\n        'input_ids': input_ids,\n        'labels': labels,\n"
            "        'token_type_ids': token_type_ids,\n    }\n",
            rows=(8,),
        ),
    ),
)
