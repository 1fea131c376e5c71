"""Boundaries are derived from position ids whose rope axes were flattened into one stream.

### What it does
Reports positions with three axes (temporal, height, width) that are flattened as a whole before the places with position 0 become
boundaries.

### Why is this bad?
The flattened stream is three times as long as the rows and starts anew for each axis, so there are three times as many segments, and the
last boundary lies behind the last row.

### Example
```python
position_ids = torch.stack([temporal, height, width])
starts = (position_ids.flatten() == 0).nonzero()
```

### Use instead
```python
position_ids = torch.stack([temporal, height, width])
starts = (position_ids[0].flatten() == 0).nonzero()
```

### Fix safety
No fix: which axis counts the rows depends on the model.

### References
- [Qwen2-VL: multimodal rotary positions](https://huggingface.co/docs/transformers/model_doc/qwen2_vl)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.everything import values
from shapecheck.codemods.queries.names import outer_name
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_LOCATE = {"nonzero", "where", "argwhere", "flatnonzero", "cumsum"}
_FLAT = {"view", "reshape", "flatten", "ravel"}
_SECTIONS = 3


def check(view: View) -> Iterator[Finding]:
    """VL108."""
    for call in view.calls:
        if call.name not in _LOCATE:
            continue
        tested = call.receiver if call.receiver is not None else (call.args[0] if len(call.args) == 1 else None)
        flat = None if tested is None else _flattened(tested)
        if flat is None or not _has_sections(view, flat.args[1]):
            continue
        name = outer_name(flat.args[1]) or "the positions"
        yield view.finding(
            RULE,
            flat.node or call.node,
            f"`{name}` has one row of positions for each rope axis, and all of them are flattened into one stream before boundaries are "
            f"derived{view.line(call.node)}; take one axis first",
            notes=[(call.node, "boundaries of the flattened stream")],
        )


def _flattened(tested: Term) -> Term | None:
    """The flattening, if the term is `positions.flatten() == 0`."""
    tested = tested.args[0] if tested.op in {"cast", "host"} else tested
    if tested.op != "Eq" or not tested.args[1].is_const(0):
        return None
    flat: Term = tested.args[0]
    if flat.op != "view" or flat.args[0] not in _FLAT:
        return None
    whole = flat.args[0] in {"flatten", "ravel"} and len(flat.args) == 2
    return flat if whole or (len(flat.args) == 3 and flat.args[2].is_const(-1)) else None


def _has_sections(view: View, positions: Term) -> bool:
    """Whether the function itself takes the value to have a row for each rope axis."""
    made = plain(positions)
    if made.op == "list":
        return len(made.args) == _SECTIONS and positions.op == "stack"
    if made.op == "view" and made.args[0] == "expand":
        return bool(made.args[2].is_const(_SECTIONS))
    if "mrope" in (outer_name(positions) or ""):
        return True
    rows = {term.args[1].value for term in values(view) if term.op == "item" and term.args[0] is positions}
    return {0, 1, 2} <= {row for row in rows if type(row) is int}


RULE = Rule(
    "VL108",
    "boundaries-of-flattened-axes",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef f(t, h, w, cu_seqlens):\n    position_ids = torch.stack([t, h, w])\n"
        "    return (position_ids[0].flatten() == 0).nonzero()\n",
        "def f(position_ids, cu_seqlens):\n    return (position_ids.flatten() == 0).nonzero()\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef f(t, h, w):\n    position_ids = torch.stack([t, h, w])\n"
            "    cu_seqlens = (position_ids.flatten() == 0).nonzero()\n    return cu_seqlens\n",
            rows=(6,),
        ),
        Invalid(
            "import torch\n\n\ndef f(rotate, x, position_ids):\n"
            "    x = rotate(x, position_ids[0], position_ids[1], position_ids[2])\n"
            "    cu_seqlens = torch.where(position_ids.view(-1) == 0)[0]\n    return x, cu_seqlens\n",
            rows=(6,),
        ),
    ),
)
