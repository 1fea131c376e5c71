"""The length of a prefix is used after the front of the row was cut off.

### What it does
Reports `row[:prompt_len]` and `row[prompt_len:]` where `prompt_len` is the length of the first part of the row and the
row was cut on the left since, as `row = row[-limit:]` does.

### Why is this bad?
The first part is shorter now, or gone. The slice reaches into what follows it: the loss mask hides answer tokens.

### Example
```python
prompt_len = len(prompt)
ids = (prompt + answer)[-limit:]
loss_mask = [1] * len(ids)
loss_mask[:prompt_len] = [0] * prompt_len
```

### Use instead
```python
ids = prompt + answer
prompt_len = max(0, len(prompt) - max(0, len(ids) - limit))
ids = ids[-limit:]
loss_mask = [1] * len(ids)
loss_mask[:prompt_len] = [0] * prompt_len
```

### Fix safety
No fix: how much of the prefix remains depends on the cut.

### References
- [verl#601](https://github.com/volcengine/verl/pull/601)
"""

from collections.abc import Iterator

from shapecheck.codemods.compare import worlds
from shapecheck.codemods.engine.describe.lengths import length_of, plain
from shapecheck.codemods.engine.describe.rows import Change, Rows, rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.joined import joined_rows
from shapecheck.codemods.queries.partings import place
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL307."""
    if not any(_cuts_left(inner) for binding in view.bindings for inner in binding.value.branches()):
        return
    seen: set[Term] = set()
    for binding in view.bindings:
        for use in _uses(binding.value):
            if use in seen:
                continue
            seen.add(use)
            found = _reaches_over(use)
            if found is None:
                continue
            length, cut = found
            at = use.node if use.node is not None else binding.node
            yield view.finding(
                RULE,
                at,
                f"the length of the first part{place(view, length)} is used to split a row whose front was cut "
                f"off{place(view, cut.term)}; subtract what was cut from the length",
                notes=[(length.node, "length of the whole first part"), (cut.term.node, "front cut off here")],
            )


def _cuts_left(term: Term) -> bool:
    return term.op == "item" and _left_bound(term.args[1]) is not None


def _left_bound(index: Term) -> Term | None:
    """Where a slice starts that drops rows at the front; None for another index."""
    if index.op == "tuple" and index.args and all(part.op == "slice" for part in index.children()):
        index = index.args[-1]
    if (
        index.op != "slice"
        or index.args[0].is_const(None)
        or index.args[0].is_const(0)
        or not index.args[1].is_const(None)
    ):
        return None
    start: Term = index.args[0]
    return start


def _uses(term: Term) -> Iterator[Term]:
    """Slices and slice assignments in a value."""
    for inner in term.walk():
        if inner.op in {"store", "item"} and inner.args[1].op in {"slice", "tuple"}:
            yield inner


def _reaches_over(use: Term) -> tuple[Term, Change] | None:
    """The prefix length and the cut, where a slice up to or from a prefix length meets a row that lost its front."""
    index = use.args[1]
    if index.op == "tuple":
        index = index.args[-1]
    if index.op != "slice":
        return None
    for bound, other in ((index.args[1], index.args[0]), (index.args[0], index.args[1])):
        if not (other.is_const(None) or other.is_const(0)) or _branches_of(bound):
            continue
        length = length_of(bound)
        if length is None or len(length.rows.flat) != 1 or length.rows.flat[0].changes:
            continue
        prefix = length.rows.flat[0]
        for (base,) in worlds(use.args[0]):
            rows = _covered(base)
            cut = next(
                (change for change in rows.changes if change.kind == "slice" and _left_bound(change.detail[0])), None
            )
            if (
                cut is not None
                and len(rows.parts) > 1
                and rows.parts[0].key == prefix.key
                and bound not in set(cut.detail[0].walk())
            ):
                return plain(bound), cut
    return None


def _branches_of(term: Term) -> bool:
    return any(inner.op == "phi" for inner in term.walk())


def _covered(base: Term) -> Rows:
    """The rows that a value has one entry for: those of a tensor, or of the row whose length it was made with."""
    match base.op:
        case "store":
            return _covered(base.args[0])
        case "full_like" | "copy":
            return rows_of(base.args[0])
        case "Mult" if base.args[0].op == "list":
            length = length_of(base.args[1])
            return rows_of(base) if length is None else joined_rows(length.of)
        case "full" if len(base.args) == 2:
            length = length_of(base.args[1])
            return rows_of(base) if length is None else joined_rows(length.of)
    return joined_rows(base)


RULE = Rule(
    "VL307",
    "prefix-length-after-left-cut",
    "stable",
    __doc__,
    check,
    valid=(
        "def f(prompt, answer, limit):\n    n = len(prompt)\n    ids = (prompt + answer)[:limit]\n"
        "    mask = [1] * len(ids)\n    mask[:n] = [0] * n\n    return ids, mask\n",
        "def f(prompt, answer, limit):\n    n = len(prompt)\n    ids = prompt + answer\n    if len(ids) > limit:\n"
        "        n = max(0, n - (len(ids) - limit))\n        ids = ids[-limit:]\n    mask = [1] * len(ids)\n"
        "    mask[:n] = [0] * n\n    return ids, mask\n",
    ),
    invalid=(
        Invalid(
            "def f(prompt, answer, limit):\n    n = len(prompt)\n    ids = prompt + answer\n    if len(ids) > limit:\n"
            "        ids = ids[-limit:]\n    mask = [1] * len(ids)\n    mask[:n] = [0] * n\n    return ids, mask\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\n\n\ndef f(prompt, answer, limit):\n    ids = torch.cat([prompt, answer])[-limit:]\n"
            "    labels = ids.clone()\n    labels[: prompt.shape[0]] = -100\n    return ids, labels\n",
            rows=(7,),
        ),
    ),
)
