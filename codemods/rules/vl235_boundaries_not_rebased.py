"""The boundaries of a part of the packed rows still count from the first row of all.

### What it does
Reports a piece `cu_seqlens[i:j]` of boundaries that travels with rows which were cut at its own first boundary, without that
boundary being subtracted.

### Why is this bad?
The cut rows start at row 0, their boundaries at the offset of the part: every segment is read too late, and the last ones lie
past the end.

### Example
```python
bounds = cu_seqlens[first : first + n + 1]
begin, end = int(bounds[0]), int(bounds[-1])
yield {"input_ids": ids[begin:end], "cu_seqlens": bounds}
```

### Use instead
```python
bounds = cu_seqlens[first : first + n + 1]
begin, end = int(bounds[0]), int(bounds[-1])
yield {"input_ids": ids[begin:end], "cu_seqlens": bounds - begin}
```

### Fix safety
No fix: the boundaries may be used as places in all of the rows as well.

### References
- [flash-attention: flash_attn_varlen_func](https://github.com/Dao-AILab/flash-attention/blob/main/flash_attn/flash_attn_interface.py)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.queries.partings import place, shown
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View

_BOUNDS = {"bounds", "bounds_q", "bounds_k"}


def check(view: View) -> Iterator[Finding]:
    """VL235."""
    if not view.module.pool.by_op.get("slice") or not _BOUNDS & view.roles:
        return
    groups = [company.members for company in companies(view)]
    groups += [tuple(consumer.roles.values()) for consumer in view.consumers]
    seen: set[Term] = set()
    for members in groups:
        for meta in members:
            piece = plain(meta.term)
            if meta.term in seen or not _is_later_piece(piece) or not _is_bounds(view, meta, piece):
                continue
            rows, cut = next(
                ((rows, cut) for rows in members if (cut := _cut_at(rows, piece)) is not None), (None, None)
            )
            if rows is None or cut is None:
                continue
            seen.add(meta.term)
            yield view.finding(
                RULE,
                meta.node,
                f"`{shown(rows)}` was cut at the first boundary of this part{place(view, cut)}, so its rows count from 0, but "
                f"`{shown(meta)}` keeps the offset of the part{place(view, piece)}; subtract its first boundary",
                notes=[(cut.node, "rows cut here"), (piece.node, "boundaries of the part")],
            )


def _is_bounds(view: View, meta: Argument, piece: Term) -> bool:
    """Whether a piece goes by the name of boundaries, or has none and is a slice of a value that does."""
    base = plain(piece.args[0])
    name = base.args[0] if base.op == "parameter" else base.args[1] if base.op == "attr" else None
    if base.op == "item":
        name = base.args[1].value
    return meta.role in _BOUNDS or (not meta.name and isinstance(name, str) and view.catalogue.role_of(name) in _BOUNDS)


def _is_later_piece(term: Term) -> bool:
    """Whether boundaries are a piece of others that starts at a computed place."""
    if term.op != "item" or term.args[1].op != "slice":
        return False
    start, end, step = term.args[1].args
    return start.op != "const" and not end.is_const(None) and step.is_const(None)


def _cut_at(rows: Argument, piece: Term) -> Term | None:
    """Where rows were cut from the first boundary of a piece on; looks through views."""
    term = rows.term
    while term.op in {"view", "elementwise", "cast", "moved", "host", "copy", "typed_like"}:
        term = term.args[1 if term.op in {"view", "elementwise"} else 0]
    if term.op == "narrow":
        return term if any(isinstance(arg, Term) and _is_first(arg, piece) for arg in term.args[1:]) else None
    if term.op != "item":
        return None
    index = term.args[1]
    slices = [part for part in (index.args if index.op == "tuple" else (index,)) if part.op == "slice"]
    return term if any(_is_first(part.args[0], piece) for part in slices) else None


def _is_first(start: Term, piece: Term) -> bool:
    """Whether a number is the first boundary of a piece: `piece[0]`, or `whole[i]` of `whole[i:j]`."""
    start = plain(start)
    if start.op != "item":
        return False
    base, at = plain(start.args[0]), plain(start.args[1])
    return (base is piece and at.is_const(0)) or (base is plain(piece.args[0]) and at is plain(piece.args[1].args[0]))


_HEAD = (
    "def parts(batch, step):\n    cu_seqlens = batch['cu_seqlens']\n    for i in range(0, len(cu_seqlens) - 1, step):\n"
)

RULE = Rule(
    "VL235",
    "boundaries-not-rebased",
    "stable",
    __doc__,
    check,
    valid=(
        f"{_HEAD}        cu = cu_seqlens[i : i + step + 1]\n        begin, end = int(cu[0]), int(cu[-1])\n"
        "        yield {'input_ids': batch['input_ids'][begin:end], 'cu_seqlens': cu - begin}\n",
        # The rows are those of the whole batch.
        f"{_HEAD}        yield {{'input_ids': batch['input_ids'], 'cu_seqlens': cu_seqlens[i : i + step + 1]}}\n",
        # The first part starts at row 0.
        "def head(ids, cu_seqlens, n):\n    cu = cu_seqlens[: n + 1]\n    return {'ids': ids[cu[0] : cu[-1]], 'cu_seqlens': cu}\n",
        # Places in the whole, under a name that says so.
        f"{_HEAD}        cu = cu_seqlens[i : i + step + 1]\n        rows = batch['input_ids'][cu[0] : cu[-1]]\n"
        "        yield {'input_ids': rows, 'cu_seqlens': cu - cu[0], 'places': cu}\n",
    ),
    invalid=(
        Invalid(
            f"{_HEAD}        cu = cu_seqlens[i : i + step + 1]\n        begin, end = int(cu[0]), int(cu[-1])\n"
            "        yield {'input_ids': batch['input_ids'][:, begin:end], 'cu_seqlens': cu}\n",
            rows=(6,),
        ),
        Invalid(
            f"{_HEAD}        begin, end = cu_seqlens[i].item(), cu_seqlens[i + step].item()\n"
            "        rows = batch['x'].narrow(0, begin, end - begin)\n"
            "        yield rows, cu_seqlens[i : i + step + 1]\n",
            rows=(6,),
        ),
        Invalid(
            "def run(model, ids, cu_seqlens, first, last):\n    cu = cu_seqlens[first : last + 1]\n"
            "    return model(input_ids=ids[cu[0] : cu[-1]].unsqueeze(0), cu_seqlens=cu.to(ids.device))\n",
            rows=(3,),
        ),
    ),
)
