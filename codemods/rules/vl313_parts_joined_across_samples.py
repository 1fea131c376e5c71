"""All rows of one part come before all rows of the other, the boundaries count both parts sample by sample.

### What it does
Reports flattened batches of two parts that are joined one behind the other while each segment of the boundaries is as
long as both parts of one sample.

### Why is this bad?
The first segment holds the first parts of several samples. Totals and shapes fit, so nothing crashes: samples attend to
each other.

### Example
```python
x = torch.cat([text.flatten(0, 1), image.flatten(0, 1)])
n = text.shape[1] + image.shape[1]
cu_seqlens = torch.arange(0, (batch + 1) * n, n)
```

### Use instead
```python
x = torch.cat([text, image], dim=1).flatten(0, 1)
n = text.shape[1] + image.shape[1]
cu_seqlens = torch.arange(0, (batch + 1) * n, n)
```

### Fix safety
No fix: what reads the output has to change too.

### References
- [torch.nn.attention.varlen](https://docs.pytorch.org/docs/stable/nn.attention.varlen.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import length_of, lens_of, plain
from shapecheck.codemods.engine.describe.rows import rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.queries.partings import place, row_like, shown
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View

_MERGING = {"flatten", "reshape", "view", "rearrange"}


def check(view: View) -> Iterator[Finding]:
    """VL313."""
    seen: set[Term] = set()
    groups = [tuple(consumer.roles.values()) for consumer in view.consumers]
    groups += [company.members for company in companies(view)]
    for members in groups:
        for meta in members:
            roots = _counted_together(meta.term)
            if len(roots) < 2 or meta.term in seen:
                continue
            found = next(
                (joined for member in members if row_like(member) and (joined := _joined(member, roots))), None
            )
            if found is not None:
                seen.add(meta.term)
                yield view.finding(
                    RULE,
                    meta.node,
                    f"`{shown(meta)}` counts the rows of all parts for each sample{place(view, meta.term)}, but the "
                    f"rows were joined part by part{place(view, found)}; join each sample's parts first, then flatten",
                    notes=[(found.node, "joined part by part here")],
                )


def _counted_together(term: Term) -> list[Term]:
    """The values whose lengths one segment sums up, for dense boundaries."""
    bounds = bounds_of(term)
    if bounds is None:
        return []
    source = bounds.source
    if bounds.kind == "lens":
        lens = lens_of(source)
        source = lens.source if lens is not None and lens.kind == "dense" and lens.source is not None else source
    elif bounds.kind != "dense":
        return []
    return _summands(plain(source))


def _summands(term: Term) -> list[Term]:
    if term.op == "Add":
        left, right = (_summands(plain(part)) for part in term.args)
        return [*left, *right] if left and right else []
    length = length_of(term)
    return [length.of] if length is not None and length.axis == 1 else []


def _joined(member: Argument, roots: list[Term]) -> Term | None:
    """The join of the flattened parts, one behind the other."""
    if [part.root for part in rows_of(member.term).parts] != roots:
        return None
    for inner in member.term.walk():
        if inner.op == "cat" and inner.args[0].is_const(0) and inner.args[1].op in {"list", "tuple"}:
            parts = inner.args[1].args
            if len(parts) == len(roots) and all(part.op == "view" and part.args[0] in _MERGING for part in parts):
                return inner
    return None


RULE = Rule(
    "VL313",
    "parts-joined-across-samples",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef f(a, b, batch):\n    x = torch.cat([a, b], dim=1).flatten(0, 1)\n"
        "    n = a.shape[1] + b.shape[1]\n"
        "    return {'x': x, 'cu_seqlens': torch.arange(0, (batch + 1) * n, n)}\n",
        "import torch\n\n\ndef f(a, b):\n    x = torch.cat([a, b])\n"
        "    return {'x': x, 'cu_seqlens': torch.tensor([0, a.shape[0], b.shape[0]]).cumsum(0)}\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef f(a, b, batch):\n    x = torch.cat([a.flatten(0, 1), b.flatten(0, 1)])\n"
            "    n = a.shape[1] + b.shape[1]\n    return {'x': x, 'cu_seqlens': torch.arange(0, (batch + 1) * n, n)}\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\n\n\ndef f(block, a, b, width):\n"
            "    x = torch.cat([a.reshape(-1, width), b.reshape(-1, width)])\n"
            "    lens = torch.full((a.shape[0],), a.shape[1] + b.shape[1])\n"
            "    return block(x, cu_seqlens=torch.nn.functional.pad(lens.cumsum(0), (1, 0)))\n",
            rows=(7,),
        ),
    ),
)
