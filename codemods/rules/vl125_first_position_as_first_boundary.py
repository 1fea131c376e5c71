"""The first position id stands where boundaries have their leading zero.

### What it does

Reports boundaries that are a cumulative sum of lengths whose first entry is the first position id.

### Why is this bad?

A rank that gets a part of a packed row may start in the middle of a segment. Its first position is not 0 then, the boundaries do not start
with 0, and all of them are too large.

### Example

```python
fresh = position_ids[1:] == 0
lengths = torch.cat([position_ids[:1], position_ids[:-1][fresh] + 1, position_ids[-1:] + 1])
cu_seqlens = lengths.cumsum(0)
```

### Use instead

```python
starts = (position_ids[1:] == 0).nonzero().flatten() + 1
cu_seqlens = torch.cat([starts.new_zeros(1), starts, starts.new_tensor([position_ids.numel()])])
```

### Fix safety

No fix: the other lengths are wrong for such a part too.

### References

- [torch.nn.attention.varlen](https://docs.pytorch.org/docs/stable/nn.attention.varlen.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.joined_boundaries import joined
from shapecheck.codemods.queries.located import is_positions
from shapecheck.codemods.queries.names import origin, outer_name
from shapecheck.codemods.queries.slots import BOUNDS, slots
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL125."""
    if "cat" not in view.module.pool.by_op:
        return
    seen: set[Term] = set()
    for slot in slots(view, BOUNDS):
        bounds = bounds_of(slot.term)
        pieces = joined(slot.term if bounds is None else bounds.source).pieces
        if len(pieces) < 2:
            continue
        first = plain(pieces[0])
        if first in seen or not _is_first(first) or not is_positions(_whole(first.args[0]), view):
            continue
        seen.add(first)
        yield view.finding(
            RULE,
            slot.node,
            f"{slot.shown} starts with the first position id{view.line(first.node)}, which is not 0 where a rank's part begins inside a "
            "segment; start with 0",
            notes=[(first.node, "taken for the leading zero")],
        )


def _is_first(term: Term) -> bool:
    """Whether a value is `x[:1]`."""
    if term.op != "item" or term.args[1].op != "slice":
        return False
    low, high, step = term.args[1].args
    return bool((low.is_const(None) or low.is_const(0)) and high.is_const(1) and step.is_const(None))


def _whole(rows: Term) -> Term:
    """What rows are a part of."""
    rows = origin(rows)
    while rows.op in {"chunk", "split", "narrow", "picked"} or (rows.op == "item" and outer_name(rows) is None):
        rows = origin(rows.args[0])
    return rows


RULE = Rule(
    "VL125",
    "first-position-as-first-boundary",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef f(position_ids):\n    starts = (position_ids[1:] == 0).nonzero().flatten() + 1\n"
        "    cu_seqlens = torch.cat([starts.new_zeros(1), starts, starts.new_tensor([position_ids.numel()])])\n    return cu_seqlens\n",
        "import torch\n\n\ndef f(lens):\n    cu_seqlens = torch.cat([lens[:1], lens[1:]]).cumsum(0)\n    return cu_seqlens\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef f(position_ids):\n    fresh = position_ids[1:] == 0\n"
            "    lens = torch.cat([position_ids[:1], position_ids[:-1][fresh] + 1, position_ids[-1:] + 1])\n"
            "    cu_seqlens = lens.cumsum(0)\n    return cu_seqlens, int(lens.max())\n",
            rows=(8,),
        ),
        Invalid(
            "import torch\n\n\ndef f(position_ids):\n    pos = position_ids.flatten()\n"
            "    cuts = (pos[1:] == 0).nonzero().flatten() + 1\n    cu_seqlens = torch.cat([pos[:1], cuts, cuts.new_tensor([len(pos)])])\n"
            "    return {'position_ids': position_ids, 'cu_seqlens': cu_seqlens}\n",
            rows=(8,),
        ),
    ),
)
