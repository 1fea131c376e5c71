"""Rows that were taken by the boundaries of the padded layout are sliced by those of the valid rows.

### What it does
Reports slices of rows that were selected with `cu_seqlens_padded` (the rows of one rank, for example) where start and end come from
the valid `cu_seqlens` of the same object.

### Why is this bad?
With padding between segments the valid boundaries are right for the first segment only. Every other slice starts in the segment
before it.

### Example
```python
rows = partitioned_indices(params.cu_seqlens_q_padded, total, cp_size, rank)
local = ids[rows]
bounds = params.cu_seqlens_q // cp_size
first = local[bounds[0] : bounds[1]]
```

### Use instead
```python
bounds = params.cu_seqlens_q_padded // cp_size
```

### Fix safety
No fix.

### References
- [TransformerEngine: packed sequences with padding](https://github.com/NVIDIA/TransformerEngine)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.rows import rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL422."""
    layouts = {
        call.result: term
        for call in view.calls
        for term in (*call.args, *call.kwargs.values())
        if term is not None and _side(view, term, "padded") is not None
    }
    if not layouts:
        return
    reported: set[Term] = set()
    for binding in view.bindings:
        for inner in binding.value.walk():
            found = _valid_slice(view, inner, layouts)
            if found is None or found[0] in reported:
                continue
            valid, layout = found
            reported.add(valid)
            yield view.finding(
                RULE,
                valid.node or binding.node,
                f"{written(valid.node)} says where the valid rows end, but the rows that are sliced by it{view.line(inner.node)} were "
                f"taken by {written(layout.node)}: slice by those boundaries",
                notes=[(layout.node, "boundaries of the layout"), (inner.node, "sliced here")],
            )


def _side(view: View, term: Term, kind: str) -> tuple[Term, str] | None:
    """The object and side (`_q`, `_k` or nothing) of an attribute or key that is boundaries of this kind."""
    if term.op not in {"attr", "item"}:
        return None
    owner, key = term.args
    name = key if isinstance(key, str) else key.value
    role = view.catalogue.role_of(name) if isinstance(name, str) else None
    return (owner, role.removeprefix(kind)) if role is not None and role.startswith(kind) else None


def _valid_slice(view: View, term: Term, layouts: dict[Term, Term]) -> tuple[Term, Term] | None:
    """The valid boundaries by which rows are sliced, and those of the layout by which they were taken."""
    if term.op != "item" or term.args[1].op != "slice" or term.args[1].args[0].op == "const":
        return None
    places = {inner for inner in term.args[1].walk() if inner.op in {"attr", "item"}}
    for change in rows_of(term.args[0]).all_changes:
        for detail in change.detail if change.kind == "pick" else ():
            layout = layouts.get(detail)
            side = None if layout is None else _side(view, layout, "padded")
            if layout is None or layout in places:
                continue
            valid = next((inner for inner in places if _side(view, inner, "bounds") == side), None)
            if valid is not None:
                return valid, layout
    return None


_HEAD = "def f(select, ids, params, size, rank):\n    rows = select(params.cu_seqlens_q_padded, ids.numel(), size, rank)\n    local = ids[rows]\n"

RULE = Rule(
    "VL422",
    "layout-rows-sliced-as-valid",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD
        + "    bounds = params.cu_seqlens_q_padded // size\n    first = local[bounds[0] : bounds[1]]\n    return first\n",
        "def f(ids, params, rows):\n"
        "    local = ids[rows]\n    first = local[params.cu_seqlens_q[0] : params.cu_seqlens_q[1]]\n    return first\n",
        _HEAD + "    first = local[: params.cu_seqlens_q[1]]\n    return first\n",
    ),
    invalid=(
        Invalid(
            _HEAD
            + "    bounds = params.cu_seqlens_q // size\n    first = local[bounds[0] : bounds[1]]\n    return first\n",
            rows=(4,),
        ),
        Invalid(
            "def f(select, ids, batch, size, rank):\n"
            "    local = ids[select(batch['cu_seqlens_padded'], size, rank)]\n"
            "    pieces = []\n"
            "    for start, end in zip(batch['cu_seqlens'][:-1].tolist(), batch['cu_seqlens'][1:].tolist()):\n"
            "        pieces.append(local[start // size : end // size])\n"
            "    return pieces\n",
            rows=(4,),
        ),
    ),
)
