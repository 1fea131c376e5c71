"""Boundaries were read off position ids that were padded afterwards.

### What it does
Reports boundaries made of the places where the positions are 0 and of their number, where the positions beside them got
further entries since.

### Why is this bad?
The last boundary is the old number of rows. The padding belongs to no segment: kernels leave its output as it was allocated,
and whoever derives boundaries from the positions again gets others.

### Example
```python
starts = (position_ids[0] == 0).nonzero().flatten()
batch["cu_seqlens"] = torch.cat([starts, starts.new_tensor([position_ids.shape[1]])])
batch["position_ids"] = F.pad(position_ids, (0, fill))
```

### Use instead
```python
position_ids = F.pad(position_ids, (0, fill))
starts = (position_ids[0] == 0).nonzero().flatten()
batch["cu_seqlens"] = torch.cat([starts, starts.new_tensor([position_ids.shape[1]])])
batch["position_ids"] = position_ids
```

### Fix safety
No fix: the boundaries have to move behind the padding, or get an entry for it.

### References
- [ms-swift: sequence parallelism](https://swift.readthedocs.io/)
"""

from collections.abc import Iterator

from shapecheck.codemods.compare import worlds
from shapecheck.codemods.engine.describe.lengths import length_of, plain
from shapecheck.codemods.engine.describe.rows import Change
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.queries.history import traced
from shapecheck.codemods.queries.partings import place, shown
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL333."""
    if "nonzero" not in view.module.pool.by_op:
        return
    seen: set[Term] = set()
    for company in companies(view):
        for meta in company.members:
            if meta.term in seen or not any(inner.op == "nonzero" for inner in meta.term.walk()):
                continue
            for rows in company.members:
                found = None if rows is meta else _padded_since(meta.term, rows.term)
                if found is None:
                    continue
                seen.add(meta.term)
                yield view.finding(
                    RULE,
                    meta.node,
                    f"`{shown(meta)}` ends at the number of positions before `{shown(rows)}` was padded"
                    f"{place(view, found.term)}, so the padding is in no segment; derive it after the padding, or add a "
                    "segment",
                    notes=[(found.term.node, "padded here")],
                )
                break


def _padded_since(meta: Term, rows: Term) -> Change | None:
    for of, held in worlds(meta, rows):
        positions = _positions(of)
        root, changes = traced(held)
        padding = next((change for change in changes if change.kind == "pad"), None)
        if positions is not None and root is positions and padding is not None:
            return padding
    return None


def _positions(term: Term) -> Term | None:
    """The positions whose zeros and whose number are the boundaries."""
    term = plain(term)
    if term.op != "cat" or term.args[1].op not in {"list", "tuple"} or len(term.args[1].args) != 2:
        return None
    starts, total = term.args[1].args
    zeros = {_whole(side) for inner in starts.walk() if inner.op == "nonzero" for side in _compared(inner.args[0])}
    lengths = {length.of for inner in total.walk() if (length := length_of(inner)) is not None}
    both = {_whole(of) for of in lengths} & zeros
    return both.pop() if len(both) == 1 else None


def _compared(test: Term) -> tuple[Term, ...]:
    """What is compared with 0."""
    return test.args if test.op == "Eq" and any(side.is_const(0) for side in test.args) else ()


def _whole(term: Term) -> Term:
    """The batch, for its first row or a view of it."""
    while term.op == "view" or (term.op == "item" and term.args[1].is_const(0)):
        term = term.args[1] if term.op == "view" else term.args[0]
    return term


_HEAD = "import torch\nimport torch.nn.functional as F\n\n\ndef f(batch, fill):\n    pos = batch['position_ids']\n"
_MAKE = (
    "    starts = torch.nonzero(pos[0] == 0).flatten()\n"
    "    batch['cu_seqlens'] = torch.cat([starts, starts.new_tensor([pos.shape[1]])]).int()\n"
)

RULE = Rule(
    "VL333",
    "boundaries-before-positions-padded",
    "stable",
    __doc__,
    check,
    valid=(
        f"{_HEAD}    pos = F.pad(pos, (0, fill), value=1)\n{_MAKE}    batch['position_ids'] = pos\n    return batch\n",
        f"{_HEAD}{_MAKE}    batch['position_ids'] = pos.contiguous()\n    return batch\n",
    ),
    invalid=(
        Invalid(
            f"{_HEAD}{_MAKE}    if fill:\n        batch['position_ids'] = F.pad(pos, (0, fill))\n    return batch\n",
            rows=(8,),
        ),
        Invalid(
            "import torch\n\n\ndef f(pos, fill):\n    starts = (pos.view(-1) == 0).nonzero().view(-1)\n"
            "    cu = torch.cat([starts, torch.tensor([pos.numel()])])\n"
            "    padded = torch.cat([pos, torch.arange(fill)[None]], dim=1)\n"
            "    return {'position_ids': padded, 'cu_seqlens': cu}\n",
            rows=(8,),
        ),
    ),
)
