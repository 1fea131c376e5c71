"""Position ids start at zero on every rank, though each rank holds another piece of the rows.

### What it does
Reports `arange` from 0 to the length of rows that were cut to the piece of this rank, where it goes as position ids with those rows.

### Why is this bad?
The second half of a sequence is told that it is the first: rotary embeddings and causal masks are wrong on all ranks but the first.
With one rank everything is right.

### Example
```python
input_ids = batch["input_ids"].chunk(world, dim=1)[rank]
position_ids = torch.arange(input_ids.shape[1])
```

### Use instead
```python
input_ids = batch["input_ids"].chunk(world, dim=1)[rank]
rows = input_ids.shape[1]
position_ids = torch.arange(rank * rows, (rank + 1) * rows)
```

### Fix safety
No fix: the order of the pieces decides where a rank starts.

### References
- [Ring attention for packed sequences](https://github.com/zhuzilin/ring-flash-attention)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import length_of, plain
from shapecheck.codemods.engine.describe.rows import Change, rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.shards import cut_axis, is_of_rank, is_trim
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View

_KEEPS_VALUES = {"view": 1, "cast": 0, "host": 0, "moved": 0, "copy": 0, "typed_like": 0, "repeat": 0, "tensor": 0}
# The token axis of (batch, tokens).
_SAME_AXIS = ({1, -1},)


def check(view: View) -> Iterator[Finding]:
    """VL520."""
    if "arange" not in view.module.pool.by_op:
        return
    reported: set[Term] = set()
    for bundle in view.bundles:
        for positions in (member for member in bundle.members if member.role == "positions"):
            counted = _counted_from_zero(positions.term)
            if counted is None or counted in reported:
                continue
            for member in bundle.members:
                cut = None if member is positions else _rank_cut(member, counted)
                if cut is not None:
                    reported.add(counted)
                    yield view.finding(
                        RULE,
                        positions.node,
                        f"{written(positions.node)} counts from 0 on every rank{view.line(counted.node)}, but `{member.name}` is the "
                        f"piece of one rank{view.line(cut.term.node)}: start at the rank's first row, or cut the positions of all rows "
                        "alike",
                        notes=[(counted.node, "counted from 0"), (cut.term.node, "the rows are cut here")],
                    )
                    break


def _counted_from_zero(term: Term) -> Term | None:
    """`arange(0, n)` that a value holds."""
    while term.op in _KEEPS_VALUES:
        term = term.args[_KEEPS_VALUES[term.op]]
    return term if term.op == "arange" and term.args[0].is_const(0) and term.args[2].is_const(1) else None


def _rank_cut(member: Argument, counted: Term) -> Change | None:
    """The cut of a member to the piece of one rank, whose length is what was counted."""
    cut = _last_cut(member.term)
    if cut is None or not is_of_rank(cut) or is_trim(cut):
        return None
    end = plain(counted.args[1])
    length = length_of(end)
    if length is not None:
        measured = _last_cut(length.of)
        if measured is None or measured.same_as != cut.same_as:
            return None
        axes = (cut_axis(cut), length.axis if length.axis is not None else 0)
        return cut if axes[0] is not None and (axes[0] == axes[1] or set(axes) in _SAME_AXIS) else None
    return cut if _is_width(end, cut) else None


def _last_cut(rows: Term) -> Change | None:
    """The last operation on rows that hold parts of one value."""
    if rows.op == "narrow":
        return Change("slice", rows, rows.args[2:4])  # also of the last axis: token ids have no features
    found = rows_of(rows)
    part = found.flat[0] if found.known and len(found.flat) == 1 else None
    return part.changes[-1] if part is not None and part.changes else None


def _is_width(end: Term, cut: Change) -> bool:
    """Whether a slice takes `end` rows: `x[rank * end : (rank + 1) * end]`, `x[start : start + end]`."""
    bounds = next((part for part in cut.detail if part.op == "slice"), None)
    low, high = (bounds.args[0], bounds.args[1]) if bounds is not None else (cut.detail[0], cut.detail[-1])
    low, high = plain(low), plain(high)
    if high.op == "Add" and low in high.args and end in high.args:
        return True
    return low.op == "Mult" and high.op == "Mult" and end in low.args and end in high.args


RULE = Rule(
    "VL520",
    "positions-from-zero-on-each-rank",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef local(batch, rank, world):\n"
        "    ids = batch['input_ids'].chunk(world, dim=1)[rank]\n"
        "    n = ids.shape[1]\n"
        "    return {'input_ids': ids, 'position_ids': torch.arange(rank * n, (rank + 1) * n)}\n",
        # Ranks with samples of their own.
        "import torch\n\n\ndef local(batch, rank, world):\n"
        "    ids = batch['input_ids'].chunk(world, dim=0)[rank]\n"
        "    return {'input_ids': ids, 'position_ids': torch.arange(ids.shape[1])}\n",
        "import torch\n\n\ndef local(ids, rank, world):\n"
        "    position_ids = torch.arange(ids.shape[1])\n"
        "    return {'input_ids': ids.chunk(world, 1)[rank], 'position_ids': position_ids.chunk(world)[rank]}\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef local(batch, rank, world):\n"
            "    ids = batch['input_ids'].chunk(world, dim=1)[rank]\n"
            "    return {'input_ids': ids, 'position_ids': torch.arange(ids.shape[1]).unsqueeze(0)}\n",
            rows=(6,),
        ),
        Invalid(
            "import torch\n\n\ndef step(model, ids, cp):\n"
            "    width = ids.size(1) // cp.size()\n    start = cp.rank() * width\n"
            "    ids = ids[:, start : start + width]\n"
            "    pos = torch.arange(width, device=ids.device).expand(ids.size(0), -1)\n"
            "    return model(input_ids=ids, position_ids=pos)\n",
            rows=(9,),
        ),
        Invalid(
            "import torch\n\n\nclass Split:\n    def __init__(self, group):\n        self.rank = group.rank()\n\n"
            "    def run(self, tokens, n):\n"
            "        tokens = tokens.narrow(-1, self.rank * n, n)\n"
            "        return dict(tokens=tokens, position_ids=torch.arange(n))\n",
            rows=(10,),
        ),
        Invalid(
            "import torch\n\n\ndef shard(tokens, sp_rank, n):\n"
            "    tokens = tokens[sp_rank * n : (sp_rank + 1) * n]\n"
            "    positions = torch.arange(len(tokens))\n"
            "    return tokens, positions\n",
            rows=(7,),
        ),
    ),
)
