"""Rows are put back with an index that does not belong to how they were picked.

### What it does
Finds rows that were permuted or unpadded by one index and are put back by the inverse of another one, or by the indices of another
mask; and a restoring order that is applied after rows were filtered out.

### Why is this bad?
Every index in question is valid, so nothing fails: results end up at the rows of other tokens.

### Example
```python
video = encoder(video_rows[video_order])
video = video[torch.argsort(image_order)]
```

### Use instead
```python
video = encoder(video_rows[video_order])
video = video[torch.argsort(video_order)]
```

### Fix safety
No fix.

### References
- [flash-attention: bert_padding](https://github.com/Dao-AILab/flash-attention/blob/main/flash_attn/bert_padding.py)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.queries.rearranged import gather_of, gathers, keeps_some, last_gather, numbers, within
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL205."""
    by_op = view.module.pool.by_op
    if "argsort" in by_op:
        for op in ("item", "picked"):
            for term in by_op.get(op, ()):
                if within(view, term):
                    yield from _by_inverse(view, term)
    for op in ("repadded", "store"):
        for term in by_op.get(op, ()):
            if within(view, term):
                yield from _put_back(view, term)


def _by_inverse(view: View, term: Term) -> Iterator[Finding]:
    """`rows[argsort(order)]` where the rows were not permuted by that order."""
    found = gather_of(term)
    if found is None or found[1].op != "argsort" or term.node is None:
        return
    rows, restore = found
    order = numbers(restore.args[0])
    history = list(gathers(rows))
    if (
        not history
        or order in history
        or any(order in set(index.walk()) for index in history if keeps_some(view, index))
    ):
        return
    last = history[0]
    if keeps_some(view, last):
        if len(restore.args) == 1 and last not in set(order.walk()) and _is_order(view, order):
            yield view.finding(
                RULE,
                term.node,
                f"the rows were filtered by {named(view, last)}, but {named(view, restore)} restores the order of all rows"
                f"{view.line(restore.node)}; restore the order first, then filter",
                notes=[(restore.node, "the order of all rows")],
            )
        return
    same_key = next((index for index in history if index.op == "argsort" and numbers(index.args[0]) is order), None)
    if same_key is not None and same_key is not restore:
        yield view.finding(
            RULE,
            term.node,
            f"the rows are in the order of {named(view, same_key)}, whose inverse is `argsort` of that order; {named(view, restore)} is "
            f"another order of {named(view, order)}{view.line(restore.node)}",
            notes=[(same_key.node, "the order of the rows"), (restore.node, "not its inverse")],
        )
    elif len(history) == 1 and _permutes_others(view, order):
        yield view.finding(
            RULE,
            term.node,
            f"the rows were picked by {named(view, last)}, but they are put back by the inverse of {named(view, order)}"
            f"{view.line(restore.node)}, which is the order of other rows",
            notes=[(restore.node, f"inverse of {named(view, order)}")],
        )


def _is_order(view: View, term: Term) -> bool:
    """Whether a value is an order of rows, and not something to sort by."""
    name = term.args[0] if term.op == "parameter" else term.args[1] if term.op == "attr" else ""
    return term.op == "argsort" or "order" in name or "perm" in name or _permutes_others(view, term)


def _permutes_others(view: View, order: Term) -> bool:
    """Whether rows are picked by this order in the function."""
    by_op = view.module.pool.by_op
    return any(
        (found := gather_of(term)) is not None and found[1] is order and within(view, term)
        for op in ("item", "picked")
        for term in by_op.get(op, ())
    )


def _put_back(view: View, term: Term) -> Iterator[Finding]:
    """`pad_input(rows, indices)` and `out[indices] = rows` with the indices of other rows."""
    rows, index = (term.args[0], term.args[1]) if term.op == "repadded" else (term.args[2], term.args[1])
    index = numbers(index)
    if term.node is None or index.op in {"const", "slice", "tuple"}:
        return
    picked = last_gather(rows)
    if picked is None or picked is index or picked.op == "phi" or index.op == "phi":
        return
    both_masks = picked.op == "mask_indices" and index.op == "mask_indices"
    if both_masks or _gathers_others(view, index):
        yield view.finding(
            RULE,
            term.node,
            f"the rows were picked by {named(view, picked)}, but they are put back by {named(view, index)}, the indices of other rows",
            notes=[(picked.node, "the indices of the rows"), (index.node, "the indices of other rows")],
        )


def _gathers_others(view: View, index: Term) -> bool:
    by_op = view.module.pool.by_op
    return any(
        (found := gather_of(term)) is not None and found[1] is index and within(view, term)
        for op in ("unpadded", "picked")
        for term in by_op.get(op, ())
    )


_HEAD = "import torch\n\n\n"
_UNPAD = "from flash_attn.bert_padding import pad_input, unpad_input\n\n\n"

RULE = Rule(
    "VL205",
    "wrong-restore-index",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def encode(encoder, rows, lens):\n"
        "    order = torch.argsort(lens, descending=True)\n"
        "    out = encoder(rows[order], lens[order])\n"
        "    return out[torch.argsort(order)]\n",
        _HEAD + "def scores(model, rows, order, keep):\n"
        "    out = model(rows[order])\n"
        "    out = out[torch.argsort(order)]\n"
        "    return out[keep], keep.nonzero().flatten()\n",
        # Sorted by scores, then the best of the sorted rows by another key.
        _HEAD + "def best(rows, scores, labels):\n"
        "    rows = rows[torch.argsort(scores)]\n"
        "    return rows[torch.argsort(labels)]\n",
        # A key that was computed for the kept boxes.
        _HEAD + "def sort_kept(boxes, area, keep):\n    boxes = boxes[keep]\n    return boxes[torch.argsort(area)]\n",
        _UNPAD + "def attend(attention, q, mask, batch, length):\n"
        "    x, indices, cu_seqlens, longest, *_ = unpad_input(q, mask)\n"
        "    return pad_input(attention(x, cu_seqlens, longest), indices, batch, length)\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def encode(encoder, rows, lens):\n"
            "    order = torch.argsort(lens, descending=True)\n"
            "    restore = torch.argsort(lens)\n"
            "    out = encoder(rows[order], lens[order])\n"
            "    return out[restore]\n",
            rows=(8,),
        ),
        Invalid(
            _HEAD + "def towers(encoder, image_rows, video_rows, image_order, video_order):\n"
            "    image = encoder(image_rows[image_order])\n"
            "    video = encoder(video_rows[video_order])\n"
            "    back = image_order.argsort()\n"
            "    return image.index_select(0, back), video.index_select(0, back)\n",
            rows=(8,),
        ),
        Invalid(
            "from flash_attn import flash_attn_varlen_func\n"
            + _UNPAD
            + "def cross(q, kv, q_mask, kv_mask, batch, length):\n"
            "    q, rows_q, cu_q, max_q, *_ = unpad_input(q, q_mask)\n"
            "    kv, rows_k, cu_k, max_k, *_ = unpad_input(kv, kv_mask)\n"
            "    out = flash_attn_varlen_func(q, kv, kv, cu_q, cu_k, max_q, max_k)\n"
            "    return pad_input(out, rows_k, batch, length)\n",
            rows=(9,),
        ),
        Invalid(
            _HEAD + "def scores(model, batches, order, labels):\n"
            "    restore = torch.argsort(torch.tensor(order))\n"
            "    out = torch.cat([model(rows) for rows in batches])\n"
            "    out = out[labels != -100]\n"
            "    return out[restore]\n",
            rows=(8,),
        ),
    ),
)
