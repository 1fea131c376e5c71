"""Position ids are padded with 0, and every 0 is read as the start of a segment.

### What it does

Reports segment starts that are found by position 0 (or by positions that do not grow) in position ids that were filled up with zeros.

### Why is this bad?

Each row of the padding becomes a segment of its own: the number of segments no longer is the number of samples, and grows with the padding.

### Example

```python
position_ids = F.pad(position_ids, (0, missing), value=0)
starts = (position_ids == 0).nonzero().flatten()
```

### Use instead

```python
position_ids = torch.cat([position_ids, torch.arange(missing)])
starts = (position_ids == 0).nonzero().flatten()
```

### Fix safety

No fix: the starts may also be found before the padding.

### References

- [transformers: packing with position ids](https://huggingface.co/blog/packing-with-FA2)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import zero_rows
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.joined_boundaries import joined
from shapecheck.codemods.queries.located import is_positions, located
from shapecheck.codemods.queries.names import origin
from shapecheck.codemods.queries.slots import BOUNDS, slots
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL121."""
    if not {"nonzero", "each", "arange"} & view.module.pool.by_op.keys():
        return
    seen: set[Term] = set()
    for slot in slots(view, BOUNDS):
        for piece in joined(slot.term).pieces:
            found = located(piece, view)
            if found is None or found.kind == "ends" or found.term in seen or not is_positions(found.rows, view):
                continue
            padded = _filled_with_zeros(found.rows)
            if padded is None:
                continue
            seen.add(found.term)
            yield view.finding(
                RULE,
                found.term.node or slot.node,
                f"the position ids are filled up with 0{view.line(padded.node)}, so each row of the padding is read as the start of a "
                "segment; let the padding count from 0, or find the starts before it",
                notes=[(padded.node, "filled up with 0 here"), (slot.node, "used as boundaries here")],
            )


def _filled_with_zeros(rows: Term) -> Term | None:
    """The operation that puts zeros behind rows, if there is one and it may add several."""
    rows = origin(rows)
    match rows.op:
        case "pad":
            _, amounts, value = rows.args
            several = amounts.op in {"tuple", "list"} and len(amounts.args) >= 2 and amounts.args[1].op != "const"
            return rows if several and value.is_const(0) else None
        case "cat" if rows.args[1].op in {"list", "tuple"} and len(rows.args[1].args) == 2:
            return rows if _zeros(rows.args[1].args[1]) else None
        case "Add":
            return rows if _zeros(rows.args[1]) else None
    return None


def _zeros(filler: Term) -> bool:
    """Whether a value is a computed number of zeros."""
    filler = plain(filler)
    if filler.op == "Mult" and filler.args[0].op == "list":
        return bool(zero_rows(filler.args[0])) and filler.args[1].op != "const"
    return filler.op == "full" and bool(filler.args[0].is_const(0)) and filler.args[-1].op != "const"


RULE = Rule(
    "VL121",
    "padding-as-segment-starts",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\nimport torch.nn.functional as F\n\n\ndef f(position_ids, n):\n"
        "    position_ids = F.pad(position_ids, (0, n), value=1)\n    starts = torch.where(position_ids == 0)[0]\n"
        "    cu_seqlens = torch.cat([starts, torch.tensor([len(position_ids)])])\n    return position_ids, cu_seqlens\n",
        "import torch\n\n\ndef f(position_ids, n):\n    position_ids = torch.cat([position_ids, torch.arange(n)])\n"
        "    starts = torch.where(position_ids == 0)[0]\n    cu_seqlens = torch.cat([starts, torch.tensor([len(position_ids)])])\n"
        "    return position_ids, cu_seqlens\n",
    ),
    invalid=(
        Invalid(
            "import torch\nimport torch.nn.functional as F\n\n\ndef f(position_ids, n):\n"
            "    position_ids = F.pad(position_ids, (0, n))\n    starts = (position_ids == 0).nonzero().flatten()\n"
            "    cu_seqlens = torch.cat([starts, torch.tensor([position_ids.numel()])])\n    return position_ids, cu_seqlens\n",
            rows=(7,),
        ),
        Invalid(
            "def f(row, n):\n    position_ids = row['position_ids'] + [0] * n\n"
            "    cu_seqlens = [i for i, place in enumerate(position_ids) if place == 0] + [len(position_ids)]\n"
            "    return {'position_ids': position_ids, 'cu_seqlens': cu_seqlens}\n",
            rows=(3,),
        ),
        Invalid(
            "import torch\n\n\ndef f(position_ids, n):\n    position_ids = torch.cat([position_ids, position_ids.new_zeros(n)])\n"
            "    starts = torch.nonzero(position_ids == 0, as_tuple=True)[0]\n"
            "    return position_ids, dict(cu_seqlens=torch.cat([starts, torch.tensor([len(position_ids)])]))\n",
            rows=(6,),
        ),
    ),
)
