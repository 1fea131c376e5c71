"""Tags or positions were made before the rows were cut or padded.

### What it does
Follows tags (segment, document or modality numbers) and positions back to the rows that they were made for, and reports
them where the rows beside them were cut or padded afterwards.

### Why is this bad?
A cut at the front moves every row against its tag: rows read the tag of another segment. A cut at the end or padding
leaves the two with different lengths.

### Example
```python
for i, turn in enumerate(turns):
    input_ids.extend(turn)
    segment_ids.extend([i] * len(turn))
input_ids = input_ids[-limit:]
```

### Use instead
```python
for i, turn in enumerate(turns):
    input_ids.extend(turn)
    segment_ids.extend([i] * len(turn))
input_ids, segment_ids = input_ids[-limit:], segment_ids[-limit:]
```

### Fix safety
No fix: the same cut for the tags may have to be written at another place.

### References
- [trl#5178](https://github.com/huggingface/trl/pull/5178)
"""

from collections.abc import Iterator

from shapecheck.codemods.compare import difference, worlds
from shapecheck.codemods.engine.describe.rows import Change, rows_of
from shapecheck.codemods.engine.describe.tags import per_row_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.queries.covers import covers
from shapecheck.codemods.queries.joined import counted_rows, joined_rows
from shapecheck.codemods.queries.partings import changed_axis, first_round, is_shift, place, shown
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View

_VERBS = {"slice": "cut", "pad": "padded"}
_PER_ROW = {"tags", "tags_q", "tags_k", "positions", "mask", "rows"}


def check(view: View) -> Iterator[Finding]:
    """VL321."""
    seen: set[Term] = set()
    for rows, meta, change in (*_covered(view), *_made_like(view)):
        if meta.term in seen or is_shift(change) or _knows(meta.term, change) or not _same_axis(change, meta.term):
            continue
        seen.add(meta.term)
        verb = _VERBS[change.kind]
        yield view.finding(
            RULE,
            meta.node,
            f"`{shown(rows)}` was {verb}{place(view, change.term)} but `{shown(meta)}` was made for the rows before "
            f"that{place(view, meta.term)}; treat both alike, or make it afterwards",
            notes=[(meta.term.node, "made here"), (change.term.node, f"rows {verb} here")],
        )


def _covered(view: View) -> Iterator[tuple[Argument, Argument, Change]]:
    """Tags made piece by piece, for all parts of the rows."""
    for cover in covers(view):
        found = cover.difference
        if found is not None and found.change is not None and found.rows_changed and found.change.kind in _VERBS:
            yield cover.rows, cover.meta, found.change


def _made_like(view: View) -> Iterator[tuple[Argument, Argument, Change]]:
    """Masks, tags and labels made from the rows or from the lengths of their parts, before the rows were changed."""
    for company in companies(view):
        for meta in company.members:
            for rows in company.members if meta.role in _PER_ROW else ():
                if rows.role != "rows" or rows is meta:
                    continue
                terms = (first_round(rows.term), first_round(meta.term))
                for row_term, meta_term in worlds(*terms, context=company.context):
                    change = _changed_since(row_term, meta_term)
                    if change is not None:
                        yield rows, meta, change
                        break


def _changed_since(rows: Term, meta: Term) -> Change | None:
    """The change of the rows since the tags were made."""
    per_row = per_row_of(meta)
    made = counted_rows(meta) if per_row is None else per_row.parts
    if not made:
        return None
    held = joined_rows(rows) if len(made) > 1 else rows_of(rows)
    if not held.known:
        return None
    if len(made) > 1 and [part.key for part in held.parts] == [part.key for part in made]:
        change = held.changes[0] if len(held.changes) == 1 else None
    else:
        found = difference(held.flat, made) if not held.changes or len(held.parts) == 1 else None
        change = found.change if found is not None and found.kind == "changed" and found.rows_changed else None
    return change if change is not None and change.kind in _VERBS else None


def _knows(meta: Term, change: Change) -> bool:
    """Whether the tags were made with the numbers that the rows were cut by: `arange(start, end)` beside `x[start:end]`."""
    inside = set(meta.walk())
    bounds = {inner for part in change.detail for inner in (part.children() if part.op == "slice" else (part,))}
    return any(inner.op == "arange" and not inner.args[0].is_const(0) for inner in inside) or any(
        bound in inside for bound in bounds if bound.op != "const"
    )


def _same_axis(change: Change, meta: Term) -> bool:
    """Whether the change is along the axis on which the tags count rows."""
    at = changed_axis(change)
    axes = {inner.args[1].value for inner in meta.walk() if inner.op == "shape"}
    flat = any(inner.op in {"len", "numel"} for inner in meta.walk())
    if at is None or (axes and flat) or len(axes) > 1:
        return False
    if any(inner.op == "full_like" for inner in meta.walk()):
        return True
    return at in axes if axes else flat and at in {0, -1}


RULE = Rule(
    "VL321",
    "tags-before-truncation",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef decode(input_ids, done, n):\n    n = input_ids.shape[1]\n"
        "    return dict(input_ids=input_ids[:, done:], position_ids=torch.arange(done, n)[None])  # cu_seqlens\n",
        "def f(turns, limit):\n    input_ids, segment_ids = [], []\n    for i, turn in enumerate(turns):\n"
        "        input_ids.extend(turn)\n        segment_ids.extend([i] * len(turn))\n"
        "    return {'input_ids': input_ids[-limit:], 'segment_ids': segment_ids[-limit:]}\n",
        "import torch\n\n\ndef f(parts, width):\n"
        "    tags = torch.cat([torch.full((p.shape[0],), i) for i, p in enumerate(parts)])\n"
        "    return {'x': torch.cat(parts)[:, :width], 'token_tags': tags}\n",
    ),
    invalid=(
        Invalid(
            "def f(turns, limit):\n    input_ids, segment_ids = [], []\n    for i, turn in enumerate(turns):\n"
            "        input_ids.extend(turn)\n        segment_ids.extend([i] * len(turn))\n"
            "    input_ids = input_ids[-limit:]\n    return {'input_ids': input_ids, 'segment_ids': segment_ids}\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\n\n\ndef f(docs, budget):\n    tokens = torch.cat(docs)[:budget]\n"
            "    doc_ids = torch.cat([torch.full_like(d, i) for i, d in enumerate(docs)])\n"
            "    return {'tokens': tokens, 'doc_ids': doc_ids}\n",
            rows=(7,),
        ),
        Invalid(
            "def f(prompt, answer, limit, cu_seqlens):\n    labels = [-100] * len(prompt) + answer\n"
            "    input_ids = (prompt + answer)[-limit:]\n    return {'input_ids': input_ids, 'labels': labels}\n",
            rows=(4,),
        ),
    ),
)
