"""Rows are padded to one multiple, their boundaries advance by another one.

### What it does
Finds samples that are padded to a multiple of one number beside boundaries in which the same length is rounded up to a
multiple of another number.

### Why is this bad?
The boundaries leave the rows as soon as a length is rounded differently: segments start inside their neighbours.

### Example
```python
rows.append(F.pad(row, (0, -n % (2 * tp_size))))
cu_seqlens_padded.append(cu_seqlens_padded[-1] + n + -n % tp_size)
```

### Use instead
```python
multiple = 2 * tp_size
rows.append(F.pad(row, (0, -n % multiple)))
cu_seqlens_padded.append(cu_seqlens_padded[-1] + n + -n % multiple)
```

### Fix safety
No fix: either multiple may be the wrong one.

### References
- [Transformer Engine: padded sequences](https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/api/pytorch.html)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.everything import values
from shapecheck.codemods.queries.slots import BOUNDS, slots
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL162."""
    if not BOUNDS & view.roles or not any(
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.FloorDiv) for node in view.nodes
    ):
        return
    padding: dict[Term, dict[Term, Term]] | None = None
    seen: set[Term] = set()
    for slot in slots(view, BOUNDS):
        steps = _multiples([slot.term])
        if not steps:
            continue
        if padding is None:
            padding = _multiples([amount for term in values(view) if (amount := _amount(term)) is not None])
        for length, multiples in steps.items():
            others = padding.get(length, {})
            if len(multiples) != 1 or len(others) != 1 or multiples.keys() == others.keys():
                continue
            (multiple, step), (other, pad) = *multiples.items(), *others.items()
            if step in seen or step.node is None or multiple.conditions or other.conditions:
                continue
            seen.add(step)
            yield view.finding(
                RULE,
                step.node,
                f"the boundaries round {written(length.node)} up to a multiple of {written(multiple.node)}, but the rows are padded"
                f"{view.line(pad.node)} to a multiple of {written(other.node)}; use the same multiple",
                notes=[(pad.node, "padded here")],
            )


def _amount(term: Term) -> Term | None:
    """By how much a value is padded, or how often a padding value is repeated."""
    if term.op == "pad":
        amount: Term = term.args[1]
        return amount
    if term.op == "Mult" and term.args[0].op == "list" and len(term.args[0].args) == 1:
        times: Term = term.args[1]
        return times
    return None


def _multiples(terms: list[Term]) -> dict[Term, dict[Term, Term]]:
    """Length -> multiples to which it is rounded up below the terms -> where."""
    found: dict[Term, dict[Term, Term]] = {}
    for whole in terms:
        for term in whole.walk():
            if term.op == "Mod" and (length := _rounded(term)) is not None:
                found.setdefault(length, {}).setdefault(term.args[1], term)
            elif term.op == "Mult":
                for quotient, multiple in (term.args, reversed(term.args)):
                    if (length := _ceiling(quotient, multiple)) is not None:
                        found.setdefault(length, {}).setdefault(multiple, term)
    return found


def _rounded(rest: Term) -> Term | None:
    """The length n of `-n % m` and of `(m - n % m) % m`."""
    left = plain(rest.args[0])
    if left.op == "USub":
        return plain(left.args[0])
    if left.op == "Sub" and left.args[0] is rest.args[1]:
        inner = plain(left.args[1])
        return plain(inner.args[0]) if inner.op == "Mod" and inner.args[1] is rest.args[1] else None
    return None


def _ceiling(quotient: Term, multiple: Term) -> Term | None:
    """The length n of `(n + m - 1) // m`."""
    if quotient.op != "FloorDiv" or quotient.args[1] is not multiple or quotient.args[0].op != "Sub":
        return None
    above = quotient.args[0].args[0]
    if above.op != "Add" or multiple not in above.args:
        return None
    return plain(above.args[1 if above.args[0] is multiple else 0])


_HEAD = "import torch\nimport torch.nn.functional as F\n\n\n"

RULE = Rule(
    "VL162",
    "rows-rounded-to-other-multiple",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def f(ids, lens, m):\n    rows, cu_seqlens = [], [0]\n    for i, n in enumerate(lens):\n"
        "        rows.append(F.pad(ids[i, :n], (0, -n % m)))\n        cu_seqlens.append(cu_seqlens[-1] + n + (m - n % m) % m)\n"
        "    return {'x': torch.cat(rows), 'cu_seqlens': torch.tensor(cu_seqlens)}\n",
        _HEAD + "def f(docs, m):\n    rows, cu_seqlens = [], [0]\n    for doc in docs:\n        n = len(doc)\n"
        "        rows.append(F.pad(doc, (0, -n % m)))\n        cu_seqlens.append(cu_seqlens[-1] + (n + m - 1) // m * m)\n"
        "    return {'x': torch.cat(rows), 'cu_seqlens': torch.tensor(cu_seqlens)}\n",
        # All rows together are rounded to another multiple.
        _HEAD + "def f(ids, lens, m, k):\n    rows, cu_seqlens = [], [0]\n    for i, n in enumerate(lens):\n"
        "        rows.append(F.pad(ids[i, :n], (0, -n % m)))\n        cu_seqlens.append(cu_seqlens[-1] + n + -n % m)\n"
        "    x = torch.cat(rows)\n    x = F.pad(x, (0, -x.shape[0] % k))\n"
        "    return {'x': x, 'cu_seqlens': torch.tensor(cu_seqlens)}\n",
    ),
    invalid=(
        Invalid(
            _HEAD
            + "def f(docs, tp, cp):\n    m = 2 * tp * cp\n    rows, cu_seqlens_padded = [], [0]\n    for doc in docs:\n"
            "        target = (len(doc) + m - 1) // m * m\n        rows.append(F.pad(doc, (0, target - len(doc))))\n"
            "        cu_seqlens_padded.append(cu_seqlens_padded[-1] + (len(doc) + tp - 1) // tp * tp)\n"
            "    return {'x': torch.cat(rows), 'cu_seqlens_padded': torch.tensor(cu_seqlens_padded)}\n",
            rows=(11,),
        ),
        Invalid(
            _HEAD + "def f(ids, lens, size):\n    m = 2 * size\n    rows, cu_seqlens_padded = [], [0]\n"
            "    for i, n in enumerate(lens):\n        rows.append(F.pad(ids[i, :n], (0, -n % m)))\n"
            "        cu_seqlens_padded.append(cu_seqlens_padded[-1] + n + -n % size)\n"
            "    return {'x': torch.cat(rows), 'cu_seqlens_padded': torch.tensor(cu_seqlens_padded)}\n",
            rows=(10,),
        ),
        Invalid(
            _HEAD + "def f(docs, tp, cp, pad_id):\n    tokens = []\n    cu_seqlens = [0]\n    for doc in docs:\n"
            "        n = len(doc)\n        tokens += doc + [pad_id] * (-n % (tp * cp))\n"
            "        cu_seqlens.append(cu_seqlens[-1] + n + (tp - n % tp) % tp)\n"
            "    return {'tokens': tokens, 'cu_seqlens': cu_seqlens}\n",
            rows=(11,),
        ),
    ),
)
