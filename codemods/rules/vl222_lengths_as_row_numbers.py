"""The last rows of packed sequences are picked by their lengths, as if each began at row 0.

### What it does
Finds packed rows that are indexed by `lengths - 1`, where the rows were joined from the sequences that the lengths count, or went
through a call with the boundaries that the lengths are the differences of.

### Why is this bad?
The last row of sequence `i` is `cu_seqlens[i + 1] - 1`. The length of each sequence points into the first ones: scores of other
samples, without an error.

### Example
```python
lengths = torch.tensor([len(s) for s in sequences])
hidden = model(torch.cat(sequences))
last = hidden[lengths - 1]
```

### Use instead
```python
lengths = torch.tensor([len(s) for s in sequences])
hidden = model(torch.cat(sequences))
last = hidden[lengths.cumsum(0) - 1]
```

### Fix safety
No fix.

### References
- [flash-attention: cu_seqlens](https://github.com/Dao-AILab/flash-attention/blob/main/flash_attn/flash_attn_interface.py)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import Lens, lens_of, plain
from shapecheck.codemods.engine.describe.rows import rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.queries.rearranged import within
from shapecheck.codemods.queries.row_chain import chain
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_UNPACKS = {"repadded", "stack"}


def check(view: View) -> Iterator[Finding]:
    """VL222."""
    by_op = view.module.pool.by_op
    if "Sub" not in by_op:
        return
    for op in ("item", "picked"):
        for term in by_op.get(op, ()):
            index = plain(_index(term))
            if index.op != "Sub" or not index.args[1].is_const(1) or term.node is None:
                continue
            counts = plain(index.args[0])
            if counts.op == "elem":
                counts = plain(counts.args[0])  # [rows[n - 1] for n in lengths]
            lens = lens_of(counts) or Lens(counts, "opaque", (), counts)
            if not within(view, term):
                continue
            packed = _packed(term.args[0], lens)
            if packed is not None:
                yield view.finding(
                    RULE,
                    term.node,
                    f"the rows hold all sequences one after the other{view.line(packed.node)}, but are picked by the length of each; "
                    "the last row of a sequence is at the running sum of the lengths, minus one",
                    notes=[
                        (packed.node, "packed here"),
                        (lens.term.node, f"{named(view, lens.term)}: one length for each sequence"),
                    ],
                )


def _index(term: Term) -> Term:
    """What the rows are picked by, also in `x[0, index]`."""
    index: Term = term.args[1] if term.op == "item" else term.args[2]
    if index.op == "tuple" and len(index.args) == 2 and index.args[0].is_const(0):
        return index.args[1]  # type: ignore[no-any-return]
    return index


def _packed(rows: Term, lens: Lens) -> Term | None:
    """Where the rows of the sequences that the lengths count were packed."""
    counted = {(part.root, part.each) for part in lens.parts}
    for step in chain(rows):
        if step.op in _UNPACKS:
            return None
        if lens.kind in {"bounds", "opaque"} and step.op == "call" and _splits_by(step, lens):
            return step
        if lens.kind == "mask" and step.op in {"unpadded", "item"} and _is_mask(step.args[1], lens.source):
            return step
        if lens.kind == "parts" and ((step.op == "cat" and step.args[0].value in {0, 1}) or step.op == "tensor"):
            parts = rows_of(step).flat
            several = len(parts) > 1 or (len(parts) == 1 and parts[0].each)
            return step if several and {(part.root, part.each) for part in parts} == counted else None
    return None


def _splits_by(call: Term, lens: Lens) -> bool:
    """Whether a call takes the boundaries that the lengths are the differences of, or that were made of them."""
    for arg in call.args[1:]:
        if not isinstance(arg, Term):
            continue
        given = plain(arg.args[1] if arg.op == "keyword" else arg)
        if lens.kind == "bounds" and given is lens.source:
            return True
        bounds = bounds_of(given) if lens.kind == "opaque" else None
        if bounds is not None and bounds.kind == "lens" and plain(bounds.source) is lens.source:
            return True
    return False


def _is_mask(index: Term, mask: Term | None) -> bool:
    """Whether rows were picked by a mask."""
    if index.op == "mask_indices":
        index = index.args[0]
    return mask is not None and plain(index) is plain(mask)


_HEAD = "import torch\n\n\n"

RULE = Rule(
    "VL222",
    "lengths-as-row-numbers",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def last(model, sequences):\n"
        "    lengths = torch.tensor([len(s) for s in sequences])\n"
        "    return model(torch.cat(sequences))[lengths.cumsum(0) - 1]\n",
        # Padded rows: one axis for the samples, one for their tokens.
        _HEAD + "def last(model, ids, mask):\n"
        "    lengths = mask.sum(dim=1)\n"
        "    hidden = model(ids)\n"
        "    return hidden[torch.arange(len(ids)), lengths - 1]\n",
        # Of one sequence.
        _HEAD
        + "def last(model, tokens):\n    hidden = model(torch.cat([tokens]))\n    return hidden[len(tokens) - 1]\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def last(model, sequences):\n"
            "    lengths = torch.tensor([len(s) for s in sequences])\n"
            "    hidden = model(torch.cat(sequences))\n"
            "    return hidden[lengths - 1]\n",
            rows=(7,),
        ),
        Invalid(
            _HEAD + "def last(model, ids, cu_seqlens):\n"
            "    lengths = cu_seqlens[1:] - cu_seqlens[:-1]\n"
            "    hidden = model(ids, cu_seqlens=cu_seqlens)\n"
            "    return hidden.index_select(0, lengths - 1)\n",
            rows=(7,),
        ),
        Invalid(
            _HEAD + "def last(head, hidden_states, mask):\n"
            "    lengths = mask.sum(dim=-1)\n"
            "    scores = head(hidden_states[mask.bool()])\n"
            "    return scores[lengths - 1]\n",
            rows=(7,),
        ),
    ),
)
