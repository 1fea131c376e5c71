"""Padding is removed by one mask, the boundaries come from another.

### What it does
Reports attention whose rows were selected with the indices of one mask while their boundaries were counted on another
mask, or where keys were cut to a window and then selected by a mask that still has the full width; and queries of one
modality that were selected by the mask of keys of another.

### Why is this bad?
The boundaries count rows that were not selected. With a mask that is wider than the keys the indices point into other
samples, or past the end.

### Example
```python
k = k[:, -window:]
rows, cu_seqlens_k, max_k = get_unpad_data(mask)
k = index_first_axis(k.flatten(0, 1), rows)
```

### Use instead
```python
k = k[:, -window:]
rows, cu_seqlens_k, max_k = get_unpad_data(mask[:, -k.shape[1] :])
k = index_first_axis(k.flatten(0, 1), rows)
```

### Fix safety
No fix: which mask is the right one is not known.

### References
- [flash-linear-attention#431](https://github.com/fla-org/flash-linear-attention/issues/431)
"""

from collections.abc import Iterator

from shapecheck.codemods.compare import difference
from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import lens_of
from shapecheck.codemods.engine.describe.rows import Change, Part, rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.queries.measured import truth
from shapecheck.codemods.queries.partings import changed_axis, place, shown
from shapecheck.codemods.queries.words import words
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_MODALITIES = {
    **dict.fromkeys(("text", "txt", "prompt", "caption", "captions"), "text"),
    **dict.fromkeys(("image", "images", "img", "vision", "visual"), "image"),
    **dict.fromkeys(("audio", "speech"), "audio"),
    **dict.fromkeys(("video", "videos"), "video"),
}


def check(view: View) -> Iterator[Finding]:
    """VL305."""
    seen: set[Term] = set()
    yield from _of_other_modality(view)
    yield from _of_cut_mask(view)
    for consumer in view.consumers:
        for _, rows, meta, _ in consumer.sides():
            if rows is None or meta is None or meta.term in seen:
                continue
            bounds = bounds_of(meta.term)
            if bounds is None or bounds.kind != "mask":
                continue
            selected = _selected(rows.term)
            if selected is None:
                continue
            part, mask, unpad = selected
            if mask is not bounds.source:
                seen.add(meta.term)
                yield view.finding(
                    RULE,
                    meta.node,
                    f"the rows of `{shown(rows)}` were selected by one mask{place(view, unpad.term)}, the boundaries "
                    f"`{shown(meta)}` count another one{place(view, bounds.term)}; take both from the same mask",
                    notes=[(unpad.term.node, "rows selected here"), (bounds.term.node, "boundaries made here")],
                )
                continue
            before = part.changes[: part.changes.index(unpad)]
            cut = next((change for change in before if _along_the_row(change)), None)
            if cut is not None and (_is_whole(view, mask) or _same_batch(part, mask)):
                seen.add(meta.term)
                verb = "padded" if cut.kind == "pad" else "cut"
                yield view.finding(
                    RULE,
                    meta.node,
                    f"`{shown(rows)}` was {verb} along the sequence{place(view, cut.term)} but its mask was not, so "
                    f"`{shown(meta)}` and the selected rows{place(view, unpad.term)} are those of the rows before; treat "
                    "the mask alike",
                    notes=[(cut.term.node, f"rows {verb} here"), (bounds.term.node, "unchanged mask read here")],
                )


def _along_the_row(change: Change) -> bool:
    """Whether rows of a batch (samples, rows, ...) were cut or padded."""
    at = changed_axis(change)
    return (change.kind == "slice" and at == 1) or (change.kind == "pad" and at in {-1, -2})


def _of_other_modality(view: View) -> Iterator[Finding]:
    """Queries of one modality that are selected by the mask of the keys, which is named for another one."""
    for consumer in view.consumers:
        q, k = consumer.roles.get("q"), consumer.roles.get("k")
        bounds = consumer.roles.get("bounds_q")
        if q is None or k is None or bounds is None:
            continue
        of_q, of_k = _selected(q.term), _selected(k.term)
        if of_q is None or of_k is None or of_q[0].root is of_k[0].root:
            continue
        mask = rows_of(of_q[1]).parts[0].root
        said_q, said_k, said = (_modality(term) for term in (of_q[0].root, of_k[0].root, mask))
        if said_q is None or said_k is None or said_q == said_k or said != said_k:
            continue
        if rows_of(of_k[1]).parts[0].root is mask:
            yield view.finding(
                RULE,
                bounds.node,
                f"the {said_q} rows `{shown(q)}` were selected by the mask of the {said_k} rows{place(view, of_q[2].term)}; "
                f"select and count them by a mask of their own",
                notes=[(of_q[2].term.node, "selected here")],
            )


def _of_cut_mask(view: View) -> Iterator[Finding]:
    """Rows that a piece of a mask selected, beside the sums of the whole mask, or the other way round."""
    if "sum" not in view.module.pool.by_op:
        return
    groups = [tuple(consumer.roles.values()) for consumer in view.consumers]
    groups += [company.members for company in companies(view)]
    seen: set[Term] = set()
    for members in groups:
        for meta in members:
            counted = None if meta.term in seen else _summed_mask(meta.term)
            for rows in members if counted is not None else ():
                taken = None if rows is meta else _taken_mask(rows.term)
                found = None if taken is None or counted is None else _changed(taken, counted)
                if found is None or meta.term in seen:
                    continue
                seen.add(meta.term)
                yield view.finding(
                    RULE,
                    meta.node,
                    f"`{shown(rows)}` was selected by a mask and `{shown(meta)}` sums up the same mask, but one of the two "
                    f"was cut{place(view, found.term)} in between; select and count with the same piece",
                    notes=[(found.term.node, "mask cut here")],
                )


def _summed_mask(term: Term) -> Term | None:
    """The mask whose sums over each row boundaries cumulate."""
    bounds = bounds_of(term)
    lens = None if bounds is None or bounds.kind != "lens" else lens_of(bounds.source)
    return None if lens is None or lens.kind != "mask" or lens.source is None else truth(lens.source)


def _taken_mask(rows: Term) -> Term | None:
    """The mask that selected rows last."""
    found = rows_of(rows)
    changes = found.flat[0].changes if len(found.parts) == 1 else ()
    last = changes[-1] if changes else None
    if (
        last is None
        or last.kind != "pick"
        or last.term.op != "item"
        or last.detail[0].op not in {"cast", "Eq", "Gt", "item"}
    ):
        return None
    return truth(last.detail[0])


def _changed(one: Term, other: Term) -> Change | None:
    """The cut along the rows that only one of two masks has."""
    found = difference(rows_of(one).flat, rows_of(other).flat)
    if found is None or found.kind != "changed" or found.change is None or found.change.kind != "slice":
        return None
    return found.change if _along_the_row(found.change) else None


def _modality(term: Term) -> str | None:
    """What the name of a parameter, attribute or key says its rows are."""
    name = term.args[0] if term.op == "parameter" else term.args[1] if term.op == "attr" else ""
    if term.op == "item" and isinstance(term.args[1].value, str):
        name = term.args[1].value
    found = {_MODALITIES[word] for word in words(str(name)) if word in _MODALITIES}
    return found.pop() if len(found) == 1 else None


def _selected(rows: Term) -> tuple[Part, Term, Change] | None:
    """The rows, the mask that selected them, and the selection; None if not selected by a mask."""
    found = rows_of(rows)
    if len(found.parts) != 1:
        return None
    part = found.flat[0]
    for change in part.changes:
        if change.kind == "unpad" and change.detail[0].op == "mask_indices":
            mask: Term = change.detail[0].args[0]
            return part, mask, change
    return None


def _same_batch(part: Part, mask: Term) -> bool:
    """Whether rows and mask are fields of one batch, and so have the same width before any cut."""
    root = part.root
    return (
        root.op == mask.op == "item"
        and root.args[0] is mask.args[0]
        and root.args[1].op == mask.args[1].op == "const"
        and mask is not root
    )


def _is_whole(view: View, mask: Term) -> bool:
    """Whether a mask certainly is as wide as the uncut keys: it is uncut, and cut elsewhere to the width of the "
    "queries."""
    if rows_of(mask).all_changes:
        return False
    return any(
        inner.op == "item" and inner.args[0] is mask and inner.args[1].op == "tuple" and len(inner.args[1].args) == 2
        for call in view.calls
        for term in (*call.args, *call.kwargs.values())
        if term is not None
        for inner in (term, *term.children())
    )


_HEAD = (
    "from flash_attn import flash_attn_varlen_func\nfrom flash_attn.bert_padding import index_first_axis, unpad_input\n"
    "from transformers.modeling_flash_attention_utils import _get_unpad_data\n\n\n"
)

RULE = Rule(
    "VL305",
    "mask-of-other-rows",
    "stable",
    __doc__,
    check,
    valid=(
        f"{_HEAD}def f(q, k, mask, n):\n    q, _, cu_q, max_q, *_ = unpad_input(q, mask[:, -n:])\n"
        "    k, _, cu_k, max_k, *_ = unpad_input(k, mask)\n"
        "    return flash_attn_varlen_func(q, k, k, cu_q, cu_k, max_q, max_k)\n",
        f"{_HEAD}def f(q, k, mask, n, window):\n    q, _, cu_q, max_q, *_ = unpad_input(q, mask[:, -n:])\n"
        "    k = k[:, -window:]\n    k, _, cu_k, max_k, *_ = unpad_input(k, mask[:, -window:])\n"
        "    return flash_attn_varlen_func(q, k, k, cu_q, cu_k, max_q, max_k)\n",
    ),
    invalid=(
        Invalid(
            f"{_HEAD}def f(q, k, mask, n, window):\n    q, _, cu_q, max_q, *_ = unpad_input(q, mask[:, -n:])\n"
            "    k = k[:, -window:]\n    keep, cu_k, max_k = _get_unpad_data(mask)\n"
            "    k = index_first_axis(k.flatten(0, 1), keep)\n"
            "    return flash_attn_varlen_func(q, k, k, cu_q, cu_k, max_q, max_k)\n",
            rows=(11,),
        ),
        Invalid(
            f"{_HEAD}def f(q, k, q_mask, k_mask):\n    rows, cu_q, max_q = _get_unpad_data(q_mask)\n"
            "    k_rows, cu_k, max_k = _get_unpad_data(k_mask)\n    q = index_first_axis(q.flatten(0, 1), k_rows)\n"
            "    k = index_first_axis(k.flatten(0, 1), k_rows)\n"
            "    return flash_attn_varlen_func(q, k, k, cu_q, cu_k, max_q, max_k)\n",
            rows=(11,),
        ),
        Invalid(
            "import torch.nn.functional as F\n\n\ndef f(batch, limit):\n"
            "    ids, mask = batch['input_ids'], batch['attention_mask']\n"
            "    cu = F.pad(mask.sum(dim=1).cumsum(0), (1, 0)).int()\n    ids, mask = ids[:, :limit], mask[:, :limit]\n"
            "    return {'input_ids': ids[mask.bool()], 'cu_seqlens': cu}\n",
            rows=(8,),
        ),
        Invalid(
            f"{_HEAD}def f(img_q, txt_k, txt_mask, n):\n    q, _, cu_q, max_q, *_ = unpad_input(img_q, txt_mask[:, -n:])\n"
            "    k, _, cu_k, max_k, *_ = unpad_input(txt_k, txt_mask)\n"
            "    return flash_attn_varlen_func(q, k, k, cu_q, cu_k, max_q, max_k)\n",
            rows=(9,),
        ),
        Invalid(
            f"{_HEAD}def f(batch, embed, n):\n    x = embed(batch['input_ids'][:, :n])\n"
            "    x, _, cu, longest, *_ = unpad_input(x, batch['attention_mask'])\n"
            "    return flash_attn_varlen_func(x, x, x, cu, cu, longest, longest)\n",
            rows=(9,),
        ),
    ),
)
