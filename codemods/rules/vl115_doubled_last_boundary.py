"""The total is appended to boundaries that end with it already.

### What it does
Reports a cumulative sum of all lengths behind which the number of rows is put once more.

### Why is this bad?
The sum of all lengths is the number of rows, so the last boundary appears twice: an empty segment that no sample belongs to. Per-segment
results are one too many.

### Example
```python
tokens = torch.cat(docs)
cu_seqlens = torch.tensor([0, *itertools.accumulate(len(d) for d in docs), len(tokens)])
```

### Use instead
```python
tokens = torch.cat(docs)
cu_seqlens = torch.tensor([0, *itertools.accumulate(len(d) for d in docs)])
```

### Fix safety
No fix: the total may be there for rows that are still to be added.

### References
- [numpy.cumsum](https://numpy.org/doc/stable/reference/generated/numpy.cumsum.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import Bounds, bounds_of
from shapecheck.codemods.engine.describe.lengths import length_of, lens_of, plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.slots import BOUNDS, Slot, slots
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL115."""
    for slot in slots(view, BOUNDS):
        bounds = bounds_of(slot.term)
        if bounds is None or bounds.kind != "lens" or len(bounds.appended) != 1 or bounds.divisor is not None:
            continue
        total = _number(bounds.appended[0])
        if _is_total(total, bounds) and not _matches_padding(view, slot):
            yield view.finding(
                RULE,
                slot.node,
                f"{slot.shown} ends with the number of rows twice: the sum of all lengths{view.line(bounds.term.node)} is that number "
                f"already, and it is appended once more{view.line(total.node)}; leave it out",
                notes=[(total.node, "the number of rows")],
            )


def _matches_padding(view: View, slot: Slot) -> bool:
    """Whether the empty segment may be the counterpart of one of padding on the other side: both sides have as many segments."""
    side = slot.argument.role.rpartition("_")[2]
    if side not in {"q", "k"}:
        return False
    opposite = slot.argument.role.removesuffix(side) + ("k" if side == "q" else "q")
    if any(other.role == opposite for other in slot.others):
        return False
    found = [other for other in slots(view, BOUNDS) if other.argument.role == opposite and other.call is slot.call]
    return not any((bounds := bounds_of(other.term)) is not None and not bounds.appended for other in found)


def _number(appended: Term) -> Term:
    """The number that is appended: itself, or the only item of a list or tensor."""
    inner = plain(appended)
    return plain(inner.args[0]) if inner.op in {"list", "tuple"} and len(inner.args) == 1 else inner


def _is_total(number: Term, bounds: Bounds) -> bool:
    """Whether a number is the sum of the lengths for sure."""
    if number.op == "sum" and len(number.args) == 1:
        return plain(number.args[0]) is bounds.source
    length, lens = length_of(number), lens_of(bounds.source)
    if length is None or lens is None or lens.kind != "parts" or not length.rows.known:
        return False
    return [part.key for part in length.rows.flat] == [part.key for part in lens.parts]


RULE = Rule(
    "VL115",
    "doubled-last-boundary",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef f(docs):\n    tokens = torch.cat(docs)\n"
        "    ends = torch.tensor([d.shape[0] for d in docs]).cumsum(0)\n"
        "    return {'tokens': tokens, 'cu_seqlens': torch.cat([ends.new_zeros(1), ends])}\n",
        "import torch\nimport torch.nn.functional as F\n\n\ndef f(docs, n):\n    tokens = F.pad(torch.cat(docs), (0, n))\n"
        "    ends = torch.tensor([d.shape[0] for d in docs]).cumsum(0)\n"
        "    return {'tokens': tokens, 'cu_seqlens': torch.cat([ends.new_zeros(1), ends, ends.new_tensor([len(tokens)])])}\n",
        # Queries are padded: their padding is a segment, which needs an empty one of keys.
        "import torch\nimport torch.nn.functional as F\nfrom flash_attn import flash_attn_varlen_func\n\n\n"
        "def f(images, texts, n):\n    q, k = torch.cat(images), torch.cat(texts)\n"
        "    cu_q = F.pad(torch.tensor([len(i) for i in images]).cumsum(0), (1, 0)).int()\n"
        "    cu_k = F.pad(torch.tensor([len(t) for t in texts]).cumsum(0), (1, 0)).int()\n"
        "    q = F.pad(q, (0, 0, 0, -q.shape[0] % 8))\n    cu_q = F.pad(cu_q, (0, 1), value=q.shape[0])\n"
        "    cu_k = F.pad(cu_k, (0, 1), value=k.shape[0])\n"
        "    return flash_attn_varlen_func(q, k, k, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, max_seqlen_q=n, max_seqlen_k=n)\n",
        # The queries of the same segments are made elsewhere.
        "import numpy as np\n\n\ndef keys(texts):\n    k = np.concatenate(texts)\n"
        "    cu_seqlens_k = np.concatenate([[0], np.cumsum([len(t) for t in texts]), [k.shape[0]]])\n"
        "    return {'k': k, 'cu_seqlens_k': cu_seqlens_k}\n",
    ),
    invalid=(
        Invalid(
            "import numpy as np\n\n\ndef f(docs):\n    tokens = np.concatenate(docs)\n    lens = [len(d) for d in docs]\n"
            "    cu_seqlens = np.concatenate([[0], np.cumsum(lens), [tokens.shape[0]]])\n"
            "    return {'tokens': tokens, 'cu_seqlens': cu_seqlens}\n",
            rows=(8,),
        ),
        Invalid(
            "import torch\nimport torch.nn.functional as F\n\n\ndef f(block, x, lens):\n"
            "    cu_seqlens = F.pad(lens.cumsum(0), (1, 0))\n"
            "    cu_seqlens = torch.cat([cu_seqlens, lens.new_tensor([int(lens.sum())])])\n"
            "    return block(x, cu_seqlens=cu_seqlens)\n",
            rows=(8,),
        ),
    ),
)
