"""A boundary for the padding is appended even where there is no padding.

### What it does
Reports rows that are padded by a number that may be 0 while a boundary for the padding is appended in any case, and the number of rows
that is appended to the ends of documents although the last document may end there.

### Why is this bad?
With nothing to pad, the last boundary appears twice: an empty segment that no sample belongs to. Per-segment results are one too many, and
kernels that do not expect an empty segment fail.

### Example
```python
extra = target - int(cu_seqlens[-1])
ids = F.pad(ids, (0, extra))
cu_seqlens = F.pad(cu_seqlens, (0, 1), value=target)
```

### Use instead
```python
extra = target - int(cu_seqlens[-1])
if extra:
    ids = F.pad(ids, (0, extra))
    cu_seqlens = F.pad(cu_seqlens, (0, 1), value=target)
```

### Fix safety
No fix: everything that belongs to the padding has to move under the condition.

### References
- [torch.nn.functional.pad](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pad.html)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.engine.walk import walk
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.everything import values
from shapecheck.codemods.queries.joined_boundaries import joined
from shapecheck.codemods.queries.located import located
from shapecheck.codemods.queries.names import origin, outer_name
from shapecheck.codemods.queries.slots import BOUNDS, slots
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL109."""
    for slot in slots(view, BOUNDS):
        if (ends := _behind_last_token(view, slot.term)) is not None:
            yield view.finding(
                RULE,
                slot.node,
                f"every document that ends gives a boundary{view.line(ends.node)}, and the number of rows is appended in any case: where the "
                "last row ends a document, the last boundary appears twice; append it only where it is another one",
                notes=[(ends.node, "the ends of the documents")],
            )
            continue
        appended = _appended(slot.term)
        if appended is None:
            continue
        whole, end = appended
        rows = next((term for term in values(view) if _amount(term, whole, end) is not None), None)
        if rows is None or _asks(view, _amount(rows, whole, end)):
            continue
        yield view.finding(
            RULE,
            slot.term.node or slot.node,
            f"a boundary for the padding is appended in any case, but the rows are padded{view.line(rows.node)} by a number that may be "
            "0: then the last boundary appears twice; append it only where something is padded",
            notes=[(rows.node, "the padding, which may be empty")],
        )


def _behind_last_token(view: View, term: Term) -> Term | None:
    """The ends of documents, if the number of rows is put behind them."""
    whole = joined(term)
    if (
        whole.unique
        or len(whole.pieces) < 2
        or whole.pieces[-1].op not in {"list", "tuple"}
        or len(whole.pieces[-1].args) != 1
    ):
        return None
    found, total = located(whole.pieces[-2], view), plain(whole.pieces[-1].args[0])
    if found is None or found.kind != "ends" or found.early != 0 or total.op not in {"len", "shape", "numel"}:
        return None
    return found.term if origin(total.args[0]) is origin(found.rows) else None


def _appended(term: Term) -> tuple[Term, Term] | None:
    """The boundaries and the one boundary that is put behind them."""
    term = plain(term)
    if term.op == "pad" and term.args[1].op == "tuple" and len(term.args[1].args) == 2:
        before, after = term.args[1].args
        return (plain(term.args[0]), plain(term.args[2])) if before.is_const(0) and after.is_const(1) else None
    if term.op == "append":
        return plain(term.args[0]), plain(term.args[1])
    if term.op == "list" and len(term.args) > 1 and term.args[-1].op == "Add":
        return term.pool.make("list", *term.args[:-1]), plain(term.args[-1])
    if term.op == "cat" and term.args[1].op in {"list", "tuple"} and len(term.args[1].args) == 2:
        whole, end = (plain(part) for part in term.args[1].args)
        if outer_name(whole) is None and bounds_of(whole) is None:
            return None
        if end.op == "list" and len(end.args) == 1:
            return whole, plain(end.args[0])
        return whole, end
    return None


def _amount(pad: Term, whole: Term, end: Term) -> Term | None:
    """By how much rows are padded at their end, if that is what the new boundary adds."""
    if pad.op == "Mult" and pad.args[0].op == "list" and len(pad.args[0].args) == 1:
        amount = plain(pad.args[1])  # ids + [0] * amount
        return amount if _adds(end, whole, amount) else None
    if pad.op != "pad":
        return None
    amounts = pad.args[1]
    if amounts.op != "tuple" or not amounts.args:
        return None
    amount = plain(amounts.args[-1])
    if end.op == "Add" and plain(end.args[1]) is amount and _is_length_of(end.args[0], pad.args[0]):
        return amount
    if _adds(end, whole, amount):
        return amount
    if amount.op == "Sub" and plain(amount.args[0]) is end and _is_last(amount.args[1], whole):
        return amount
    return None


def _adds(end: Term, whole: Term, amount: Term) -> bool:
    """Whether a boundary is the last one plus the padding."""
    return end.op == "Add" and any(_is_last(end.args[at], whole) and plain(end.args[1 - at]) is amount for at in (0, 1))


def _is_length_of(term: Term, rows: Term) -> bool:
    """Whether a value is the number of rows before the padding."""
    term = plain(term)
    return term.op in {"shape", "len", "numel"} and plain(term.args[0]) is plain(rows)


def _is_last(term: Term, whole: Term) -> bool:
    """Whether a value is the last boundary: `b[-1]` or `b[-1:]`."""
    term = plain(term)
    if term.op != "item" or plain(term.args[0]) is not whole:
        return False
    index = term.args[1]
    if index.op == "slice":
        return bool(index.args[0].is_const(-1) and index.args[1].is_const(None))
    return bool(index.is_const(-1))


def _asks(view: View, amount: Term | None) -> bool:
    """Whether the function asks anywhere about the padding or what it is computed from."""
    if amount is None or any(inner.op in {"phi", "max"} for inner in amount.walk()):
        return True
    names = {binding.target for binding in view.bindings if plain(binding.value) is amount}
    for part in amount.walk():
        if part.op == "parameter":
            names.add(str(part.args[0]))
    return any(
        isinstance(inner, ast.Name) and inner.id in names
        for node in view.nodes
        if isinstance(node, ast.If | ast.IfExp | ast.Assert | ast.While)
        for inner in walk(node.test)
    )


RULE = Rule(
    "VL109",
    "unconditional-tail-boundary",
    "preview",
    __doc__,
    check,
    valid=(
        "import torch.nn.functional as F\n\n\ndef f(ids, cu_seqlens, target):\n    extra = target - int(cu_seqlens[-1])\n"
        "    if extra > 0:\n        ids = F.pad(ids, (0, extra))\n        cu_seqlens = F.pad(cu_seqlens, (0, 1), value=target)\n"
        "    return ids, cu_seqlens\n",
        "import torch.nn.functional as F\n\n\ndef f(ids, cu_seqlens, target):\n    extra = target - int(cu_seqlens[-1])\n"
        "    if extra == 0:\n        return ids, cu_seqlens\n    ids = F.pad(ids, (0, extra))\n"
        "    cu_seqlens = F.pad(cu_seqlens, (0, 1), value=target)\n    return ids, cu_seqlens\n",
        "import torch.nn.functional as F\n\n\ndef f(ids, cu_seqlens, target):\n"
        "    cu_seqlens = F.pad(cu_seqlens, (0, 1), value=ids.numel())\n    return ids, cu_seqlens\n",
        "import torch\n\n\ndef f(ids, eos):\n    ends = ((ids == eos).nonzero().flatten() + 1).tolist()\n"
        "    if not ends or ends[-1] != len(ids):\n        ends.append(len(ids))\n    cu_seqlens = torch.tensor([0, *ends])\n"
        "    return ids, cu_seqlens\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef f(ids, eos):\n    ends = (ids == eos).nonzero().flatten() + 1\n"
            "    cu_seqlens = torch.cat([ends.new_zeros(1), ends, ends.new_tensor([ids.numel()])])\n    return ids, cu_seqlens\n",
            rows=(7,),
        ),
        Invalid(
            "import torch.nn.functional as F\n\n\ndef f(ids, cu_seqlens, target):\n    extra = target - int(cu_seqlens[-1])\n"
            "    ids = F.pad(ids, (0, extra))\n    cu_seqlens = F.pad(cu_seqlens, (0, 1), value=target)\n    return ids, cu_seqlens\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\nfrom torch.nn.functional import pad\n\n\ndef f(ids, cu_seqlens, multiple):\n"
            "    extra = -ids.shape[0] % multiple\n    ids = pad(ids, (0, extra))\n"
            "    cu_seqlens = torch.cat([cu_seqlens, cu_seqlens[-1:] + extra])\n    return ids, cu_seqlens\n",
            rows=(8,),
        ),
    ),
)
