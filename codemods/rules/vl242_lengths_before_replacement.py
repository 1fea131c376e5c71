"""Samples were replaced after their lengths were measured.

### What it does
Finds rows joined from a list in which some samples were replaced by another value, `[null if d else c for c, d in ...]`,
beside lengths or boundaries of the list before.

### Why is this bad?
The new value has a length of its own, so all segments behind the first replaced one are shifted.

### Example
```python
lens = torch.tensor([len(c) for c in captions])
captions = [null if drop else c for c, drop in zip(captions, drops)]
batch = {"context": torch.cat(captions), "lens": lens}
```

### Use instead
```python
captions = [null if drop else c for c, drop in zip(captions, drops)]
lens = torch.tensor([len(c) for c in captions])
batch = {"context": torch.cat(captions), "lens": lens}
```

### Fix safety
No fix: the measurement has to move behind the replacement.

### References
- [torch.nn.attention.varlen](https://docs.pytorch.org/docs/stable/nn.attention.varlen.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View

_ROLES = frozenset(
    {
        *("bounds", "bounds_q", "bounds_k", "padded", "padded_q", "padded_k", "lens", "lens_q", "lens_k"),
        *("max", "max_q", "max_k"),
    }
)
_MEASURES = {"len", "shape", "numel"}


def check(view: View) -> Iterator[Finding]:
    """VL242."""
    if not _ROLES & view.roles or "phi" not in view.module.pool.by_op:
        return
    together: list[tuple[Argument, ...]] = [tuple(consumer.roles.values()) for consumer in view.consumers]
    together += [bundle.members for bundle in view.bundles]
    seen: set[Term] = set()
    for members in together:
        replaced = [
            found for member in members for term in member.term.walk() if (found := _replaced(term)) is not None
        ]
        for member in members:
            measured = [found for term in member.term.walk() if (found := _measured(term)) is not None]
            for rows, samples in replaced:
                lens = next((lens for lens, of in measured if of is samples), None)
                if member.role not in _ROLES or lens is None or rows in seen or rows in member.term.walk():
                    continue
                seen.add(rows)
                yield view.finding(
                    RULE,
                    lens.node or member.node,
                    f"these lengths are of {named(view, samples)} as they came, but some of them are replaced{view.line(rows.node)} "
                    "before they are joined; measure them after that",
                    notes=[(rows.node, "replaced here")],
                )


def _replaced(term: Term) -> tuple[Term, Term] | None:
    """The list in which some samples are others, and the samples, of rows that were joined from it."""
    if term.op != "cat" or not term.args[0].is_const(0):
        return None
    joined = plain(term.args[1])
    if joined.op != "each" or len(joined.args) != 2 or joined.args[0].op != "phi":
        return None
    _, one, other = joined.args[0].args
    for kept, new in ((one, other), (other, one)):
        if kept.op == "elem" and kept not in new.walk() and new.op in {"parameter", "attr", "call", "item"}:
            return joined, kept.args[0]
    return None


def _measured(term: Term) -> tuple[Term, Term] | None:
    """Lengths of samples, each measured, and the samples."""
    if term.op != "each" or len(term.args) != 2:
        return None
    length = plain(term.args[0])
    if (
        length.op not in _MEASURES
        or length.args[0].op != "elem"
        or (length.op == "shape" and not length.args[1].is_const(0))
    ):
        return None
    return term, length.args[0].args[0]


_HEAD = "import torch\nimport torch.nn.functional as F\n\n\n"

RULE = Rule(
    "VL242",
    "lengths-before-replacement",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def f(captions, null, drops):\n    captions = [null if d else c for c, d in zip(captions, drops)]\n"
        "    lens = torch.tensor([len(c) for c in captions])\n"
        "    return {'x': torch.cat(captions), 'cu_seqlens': F.pad(lens.cumsum(0), (1, 0))}\n",
        # Replaced by values of the same length.
        _HEAD + "def f(captions, drops):\n    lens = torch.tensor([len(c) for c in captions])\n"
        "    captions = [torch.zeros_like(c) if d else c for c, d in zip(captions, drops)]\n"
        "    return {'x': torch.cat(captions), 'cu_seqlens': F.pad(lens.cumsum(0), (1, 0))}\n",
    ),
    invalid=(
        Invalid(
            _HEAD
            + "class A:\n    def f(self, captions, drop):\n        lens = torch.tensor([c.shape[0] for c in captions])\n"
            "        captions = [self.null if d else c for c, d in zip(captions, drop.tolist())]\n"
            "        cu = F.pad(lens.cumsum(0), (1, 0))\n"
            "        return {'context': torch.cat(captions), 'cu_seqlens_k': cu, 'max_seqlen_k': int(lens.max())}\n",
            rows=(7,),
        ),
        Invalid(
            "import numpy as np\n\n\ndef f(docs, empty):\n    lens = [len(d) for d in docs]\n"
            "    docs = [d if len(d) < 99 else empty for d in docs]\n"
            "    return {'tokens': np.concatenate(docs), 'lens': lens}\n",
            rows=(5,),
        ),
    ),
)
