"""Values computed for a whole batch are joined to a selection of it.

### What it does
Reports `batch.union(values)` where `values` were computed from the batch before some of its rows were selected.

### Why is this bad?
Row i of the values belongs to another sample than row i of the batch, or the numbers of rows differ.

### Example
```python
values = critic(batch)
batch = batch.select_idxs(keep)
batch = batch.union(values)
```

### Use instead
```python
batch = batch.select_idxs(keep)
values = critic(batch)
batch = batch.union(values)
```

### Fix safety
No fix: selecting the values instead is cheaper where they are needed for all rows.

### References
- [verl: DataProto](https://verl.readthedocs.io/)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import place
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_JOINING = {"union", "merge", "hstack"}
_SELECTING = {".select_idxs", ".select_rows", ".index_select", ".filter_rows", ".reorder"}


def check(view: View) -> Iterator[Finding]:
    """VL317."""
    for call in view.calls:
        if call.name not in _JOINING or call.receiver is None or len(call.args) != 1 or call.args[0] is None:
            continue
        selection = _selection(call.receiver)
        values = call.args[0]
        if selection is None or values.op != "call":
            continue
        whole = selection.args[1]
        inside = set(values.walk())
        if whole in inside and selection not in inside and _takes(values, whole):
            yield view.finding(
                RULE,
                call.node.args[0],
                f"this was computed for all rows of the batch{place(view, values)}, but rows were selected "
                f"since{place(view, selection)}; compute it for the selected rows, or select it too",
                notes=[(values.node, "computed here"), (selection.node, "rows selected here")],
            )


def _selection(term: Term) -> Term | None:
    """The selection of rows that a batch went through, below what was joined to it."""
    while term.op == "call" and str(term.args[0]).lstrip(".") in _JOINING:
        term = term.args[1]
    return term if term.op == "call" and term.args[0] in _SELECTING else None


def _takes(values: Term, whole: Term) -> bool:
    return any(arg is whole for arg in values.args[1:])


RULE = Rule(
    "VL317",
    "union-of-other-rows",
    "stable",
    __doc__,
    check,
    valid=(
        "def f(batch, critic, keep):\n    batch = batch.select_idxs(keep)\n    values = critic(batch)  # cu_seqlens\n"
        "    return batch.union(values)\n",
        "def f(batch, critic, keep):\n    values = critic(batch).select_idxs(keep)  # cu_seqlens\n"
        "    return batch.select_idxs(keep).union(values)\n",
    ),
    invalid=(
        Invalid(
            "def f(batch, critic, keep):\n    values = critic(batch)  # cu_seqlens\n"
            "    batch = batch.select_idxs(keep)\n"
            "    return batch.union(values)\n",
            rows=(4,),
        ),
        Invalid(
            "class A:\n    def f(self, batch, order):\n        scores = self.model.score(batch)  # cu_seqlens\n"
            "        batch = batch.select_idxs(order)\n        batch = batch.union(self.model.values(batch))\n"
            "        return batch.union(scores)\n",
            rows=(6,),
        ),
    ),
)
