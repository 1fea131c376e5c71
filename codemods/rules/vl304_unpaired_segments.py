"""The segments of the queries are not those of the keys.

### What it does
Reports attention whose boundaries for q and for k were measured on lists made from the same samples, where only one of
the lists was filtered, sorted, cut or reversed.

### Why is this bad?
Segment i of the queries attends to segment i of the keys. After a filter on one side, every sample behind the first
dropped one attends to the keys of another sample, and the numbers of segments differ.

### Example
```python
sources = [encode(s["source"]) for s in batch]
targets = [embed(s["target"]) for s in batch if s["target"]]
```

### Use instead
```python
batch = [s for s in batch if s["target"]]
sources = [encode(s["source"]) for s in batch]
targets = [embed(s["target"]) for s in batch]
```

### Fix safety
No fix: the selection has to move in front of both lists.

### References
- [torch.nn.attention.varlen](https://docs.pytorch.org/docs/stable/nn.attention.varlen.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.rows import Change
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import measured, place, shown
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_OF_COLLECTIONS = {"sort": "sorted", "filter": "filtered", "items": "cut", "flip": "reversed"}


def check(view: View) -> Iterator[Finding]:
    """VL304."""
    for consumer in view.consumers:
        get = consumer.roles.get
        q, k = get("bounds_q") or get("lens_q"), get("bounds_k") or get("lens_k")
        if q is None or k is None or q.term is k.term:
            continue
        of_q, of_k = _samples(q.term), _samples(k.term)
        if of_q is None or of_k is None or of_q[0] is not of_k[0]:
            continue
        odd = _only_one(of_q[1], of_k[1])
        if odd is None:
            continue
        change, on_q = odd
        changed, other = (q, k) if on_q else (k, q)
        yield view.finding(
            RULE,
            k.node,
            f"`{shown(changed)}` counts samples that were {_OF_COLLECTIONS[change.kind]}{place(view, change.term)}, "
            f"`{shown(other)}` all samples as they came, so segment i of q and segment i of k are of different "
            "samples; select before both",
            notes=[(change.term.node, f"{_OF_COLLECTIONS[change.kind]} here")],
        )


def _samples(bounds: Term) -> tuple[Term, list[Change]] | None:
    """The collection whose items the segments are, and what was done to it."""
    counted = measured(bounds)
    if counted is None or len(counted.parts) != 1 or not counted.parts[0].each:
        return None
    part = counted.parts[0]
    items = {inner for inner in part.root.walk() if inner.op == "elem"}
    if len(items) != 1:
        return None
    return items.pop().args[0], [change for change in part.changes if change.kind in _OF_COLLECTIONS]


def _only_one(a: list[Change], b: list[Change]) -> tuple[Change, bool] | None:
    """The first change that only one side has, and whether it is the first side."""
    common = 0
    while common < len(a) and common < len(b) and a[common].same_as == b[common].same_as:
        common += 1
    if common == len(b) < len(a):
        return a[common], True
    if common == len(a) < len(b):
        return b[common], False
    return None


_HEAD = "import torch\nimport torch.nn.functional as F\nfrom flash_attn import flash_attn_varlen_func\n\n\n"
_TAIL = (
    "    cu_q, cu_k = (F.pad(torch.tensor(n).cumsum(0), (1, 0)).int() for n in (q_lens, k_lens))\n"
    "    return flash_attn_varlen_func(torch.cat(q), torch.cat(k), torch.cat(k), cu_q, cu_k, max(q_lens), "
    "max(k_lens))\n"
)

RULE = Rule(
    "VL304",
    "unpaired-segments",
    "stable",
    __doc__,
    check,
    valid=(
        f"{_HEAD}def f(pairs):\n    q = [a for a, _ in pairs]\n    k = [b for _, b in pairs]\n"
        f"    q_lens, k_lens = [a.shape[0] for a in q], [b.shape[0] for b in k]\n{_TAIL}",
        f"{_HEAD}def f(batch):\n    kept = [s for s in batch if len(s['q'])]\n    q = [s['q'] for s in kept]\n"
        f"    k = [s['k'] for s in batch if len(s['q'])]\n"
        f"    q_lens, k_lens = [a.shape[0] for a in q], [b.shape[0] for b in k]\n{_TAIL}",
    ),
    invalid=(
        Invalid(
            f"{_HEAD}def f(batch):\n    q = [s['q'] for s in batch if len(s['q'])]\n    k = [s['k'] for s in batch]\n"
            f"    q_lens, k_lens = [a.shape[0] for a in q], [b.shape[0] for b in k]\n{_TAIL}",
            rows=(11,),
        ),
        Invalid(
            f"{_HEAD}def f(batch, project):\n    ordered = sorted(batch, key=lambda s: len(s['q']))\n"
            f"    q = [project(s['q']) for s in ordered]\n    k = [project(s['k']) for s in batch]\n"
            f"    q_lens, k_lens = [a.shape[0] for a in q], [b.shape[0] for b in k]\n{_TAIL}",
            rows=(12,),
        ),
    ),
)
