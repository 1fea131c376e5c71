"""Position ids of three axes are cut on their batch axis where the token axis was meant.

### What it does
Finds position ids of the layout (3, batch, tokens) that get the same `[:, :limit]` as values of the layout (batch, tokens).

### Why is this bad?
The cut drops samples, or nothing at all, and leaves the positions as long as before: they no longer belong to the cut ids.

### Example
```python
position_ids = position_ids.expand(3, -1, -1)
batch = {"input_ids": input_ids[:, :limit], "position_ids": position_ids[:, :limit]}
```

### Use instead
```python
position_ids = position_ids.expand(3, -1, -1)
batch = {"input_ids": input_ids[:, :limit], "position_ids": position_ids[:, :, :limit]}
```

### Fix safety
No fix.

### References
- [Qwen2-VL: multimodal rotary positions](https://arxiv.org/abs/2409.12191)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_FIRST = {"cast", "host", "moved", "copy", "typed_like"}


def check(view: View) -> Iterator[Finding]:
    """VL226."""
    seen: set[Term] = set()
    for company in companies(view):
        cuts = [(member, cut) for member in company.members if (cut := _cut(member.term)) is not None]
        for member, cut in cuts:
            if member.role != "positions" or cut in seen or not _has_three_axes(view, cut.args[0]):
                continue
            other = next((one for one, same in cuts if one is not member and same.args[1] is cut.args[1]), None)
            if other is not None:
                seen.add(cut)
                yield view.finding(
                    RULE,
                    cut.node or member.node,
                    f"axis 1 of {named(view, cut.args[0])} is the batch, its tokens are on axis 2; `[:, :n]` cuts the tokens of "
                    f"`{other.name}`, but the samples here: cut `[:, :, :n]`",
                    notes=[(other.node, "cut along its tokens"), (cut.args[0].node, "(3, batch, tokens)")],
                )


def _cut(term: Term) -> Term | None:
    """`x[:, :n]`."""
    while term.op in _FIRST:
        term = term.args[0]
    if term.op != "item" or term.args[1].op != "tuple" or len(term.args[1].args) != 2:
        return None
    first, second = term.args[1].args
    return term if _is_slice(first, whole=True) and _is_slice(second, whole=False) else None


def _is_slice(part: Term, *, whole: bool) -> bool:
    return part.op == "slice" and all(end.is_const(None) for end in part.args) is whole


def _has_three_axes(view: View, term: Term) -> bool:
    """Whether a value is (3, batch, tokens): made so, or its tokens are counted on axis 2."""
    while True:
        if term.op in _FIRST:
            term = term.args[0]
        elif term.op == "cat" and not term.args[0].is_const(0) and term.args[1].op == "each":
            term = term.args[1].args[0]
        else:
            break
    pool = view.module.pool
    if any(shape.args[0] is term and shape.args[1].value == 2 for shape in pool.by_op.get("shape", ())):
        return True
    match term.op:
        case "view":
            sizes = term.args[2:]
            return term.args[0] in {"expand", "view", "reshape"} and len(sizes) == 3 and bool(sizes[0].is_const(3))
        case "full":
            return len(term.args) == 4 and bool(term.args[1].is_const(3))
        case "call":
            return (
                str(term.args[0]) == ".repeat"
                and len(term.args) == 5
                and [arg.value for arg in term.args[2:]] == [3, 1, 1]
            )
        case "pad":
            # What the last axis lacks is counted on axis 2 of the source.
            return any(
                inner.op == "shape" and inner.args[0] is term.args[0] and inner.args[1].value == 2
                for inner in term.args[1].walk()
            )
    return False


_HEAD = "import torch\nimport torch.nn.functional as F\n\n\n"

RULE = Rule(
    "VL226",
    "batch-axis-of-positions-cut",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def cut(input_ids, position_ids, limit):\n"
        "    position_ids = position_ids.expand(3, -1, -1)\n"
        "    return {'input_ids': input_ids[:, :limit], 'position_ids': position_ids[:, :, :limit]}\n",
        # (batch, tokens)
        _HEAD + "def cut(input_ids, position_ids, limit):\n"
        "    return {'input_ids': input_ids[:, :limit], 'position_ids': position_ids[:, :limit]}\n",
        # Another cut: the first samples.
        _HEAD + "def cut(input_ids, position_ids, limit, samples):\n"
        "    position_ids = position_ids.expand(3, -1, -1)\n"
        "    return {'input_ids': input_ids[:, :limit], 'position_ids': position_ids[:, :samples]}\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def cut(input_ids, position_ids, limit):\n"
            "    position_ids = position_ids.unsqueeze(0).expand(3, -1, -1)\n"
            "    length = input_ids.shape[1]\n"
            "    input_ids = F.pad(input_ids, (0, limit - length))\n"
            "    return {'input_ids': input_ids[:, :limit], 'position_ids': position_ids[:, :limit]}\n",
            rows=(9,),
        ),
        Invalid(
            _HEAD + "def cut(model, ids, positions, limit):\n"
            "    missing = ids.shape[1] - positions.shape[2]\n"
            "    positions = F.pad(positions, (0, missing))\n"
            "    return model(input_ids=ids[:, :limit], position_ids=positions[:, :limit])\n",
            rows=(8,),
        ),
    ),
)
