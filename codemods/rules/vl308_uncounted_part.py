"""Rows were joined from several parts, the boundaries count other parts.

### What it does
Follows boundaries and lengths back to the values that they were measured on, and reports them where the rows beside
them were joined from further values in front of or between those, or lack one that is counted.

### Why is this bad?
With keys `[past, new]` and boundaries of `new`, every segment reads rows of the past. With a part that is counted but
not there, the kernel reads past the end.

### Example
```python
cu_seqlens_k = torch.tensor([0, k.shape[0]])
k = torch.cat([past_k, k])
```

### Use instead
```python
k = torch.cat([past_k, k])
cu_seqlens_k = torch.tensor([0, k.shape[0]])
```

### Fix safety
No fix: whether the rows or the boundaries are meant is not known.

### References
- [torch.nn.attention.varlen](https://docs.pytorch.org/docs/stable/nn.attention.varlen.html)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import lens_of, plain
from shapecheck.codemods.engine.describe.rows import rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import Parting, mask_lengths, partings, place, shown, written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_FILLERS = {"full", "full_like", "list", "Mult"}


def check(view: View) -> Iterator[Finding]:
    """VL308."""
    for parting in partings(view):
        found = parting.difference
        if found.part.each or any(member.role.startswith("padded") for member in parting.members):
            continue
        if found.kind == "missing" and _is_inside(parting):
            said = f"`{shown(parting.rows)}` also holds {written(found.part.root, 'another part')}, which "
            said += f"`{shown(parting.meta)}` does not count"
        elif found.kind == "extra" and parting.measured.cumulative:
            said = f"`{shown(parting.meta)}` also counts {written(found.part.root, 'another part')}, which "
            said += f"`{shown(parting.rows)}` does not hold"
        else:
            continue
        source, rows = parting.measured.source, plain(parting.rows.term)
        yield view.finding(
            RULE,
            parting.meta.node,
            f"{said}{place(view, source)}; count the parts that the rows were joined from{place(view, rows)}",
            notes=[(source.node, "counted here"), (rows.node, "rows made here")],
        )

    yield from _one_of_several_masks(view)


def _one_of_several_masks(view: View) -> Iterator[Finding]:
    """`cat([a[mask_a], b[mask_b]])` beside lengths or boundaries of one of the masks."""
    for rows, counts, node in _given(view):
        bounds = bounds_of(counts)
        lens = lens_of(counts if bounds is None else bounds.source)
        mask = lens.source if lens is not None and lens.kind == "mask" else None
        parts = rows_of(rows).flat
        if mask is None or len(parts) < 2:
            continue
        picked = [
            _bare(part.changes[0].detail[0])
            for part in parts
            if part.changes and part.changes[0].kind in {"pick", "unpad"}
        ]
        others = [one for one in picked if one is not _bare(mask)]
        if len(picked) != len(parts) or not others or len(others) == len(picked):
            continue
        yield view.finding(
            RULE,
            node,
            f"the rows also hold what {written(others[0], 'another mask')} keeps{place(view, plain(rows))}, but `{ast.unparse(node)}` "
            f"counts what {written(mask, 'one mask')} keeps only{place(view, plain(counts))}; count all parts",
            notes=[(plain(counts).node, "counted here")],
        )


def _given(view: View) -> Iterator[tuple[Term, Term, ast.AST]]:
    """Rows, the lengths or boundaries that a call takes them with, and the place of these."""
    for consumer in view.consumers:
        for _, rows, bounds, _ in consumer.sides():
            if rows is not None and bounds is not None:
                yield rows.term, bounds.term, bounds.node
    for call in view.calls:
        for word in call.node.keywords:
            built = call.kwargs.get(word.arg or "")
            lens = [] if built is None or built.op != "call" else mask_lengths(built)
            for at, counts in enumerate(lens):
                if at < len(call.args) and (rows_term := call.args[at]) is not None:
                    yield rows_term, counts, word.value


def _bare(mask: Term) -> Term:
    mask = plain(mask)
    while mask.op == "cast":
        mask = plain(mask.args[0])
    return mask


def _is_inside(parting: Parting) -> bool:
    """Whether the part that is not counted moves others, or is no filler behind the last segment."""
    if not parting.measured.cumulative:
        return False
    if parting.difference.part.root.op in _FILLERS:
        return False
    parts = rows_of(parting.rows.term).flat
    return parts[-1].root is not parting.difference.part.root or parting.leaves


_HEAD = "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\n"

RULE = Rule(
    "VL308",
    "uncounted-part",
    "stable",
    __doc__,
    check,
    valid=(
        f"{_HEAD}def f(q, k, past, n):\n    cu_q = torch.tensor([0, q.shape[0]]).int()\n    k = torch.cat([past, k])\n"
        "    cu_k = torch.tensor([0, k.shape[0]]).int()\n    return flash_attn_varlen_func(q, k, k, cu_q, cu_k, n, n)\n",
        "import torch\n\n\ndef f(text, image):\n    x = torch.cat([text, image])\n"
        "    cu_seqlens = torch.tensor([0, text.shape[0], image.shape[0]]).cumsum(0)\n"
        "    return {'x': x, 'cu_seqlens': cu_seqlens}\n",
        f"{_HEAD}def f(q, cu_q, n, text, text_mask, image, image_mask):\n    k = torch.cat([text[text_mask], image[image_mask]])\n"
        "    lens = torch.cat([text_mask.sum(1), image_mask.sum(1)])\n"
        "    cu_k = torch.nn.functional.pad(lens.cumsum(0), (1, 0)).int()\n"
        "    return flash_attn_varlen_func(q, k, k, cu_q, cu_k, n, n)\n",
    ),
    invalid=(
        Invalid(
            f"{_HEAD}def f(q, cu_q, n, text, text_mask, image, image_mask):\n    k = torch.cat([text[text_mask], image[image_mask]])\n"
            "    cu_k = torch.nn.functional.pad(text_mask.sum(1).cumsum(0), (1, 0)).int()\n"
            "    return flash_attn_varlen_func(q, k, k, cu_q, cu_k, n, n)\n",
            rows=(8,),
        ),
        Invalid(
            f"{_HEAD}def f(q, k, past, n):\n    cu_q = torch.tensor([0, q.shape[0]]).int()\n"
            f"    cu_k = torch.tensor([0, k.shape[0]]).int()\n"
            "    k = torch.cat([past, k])\n    return flash_attn_varlen_func(q, k, k, cu_q, cu_k, n, n)\n",
            rows=(9,),
        ),
        Invalid(
            "import torch\n\n\ndef f(text, image, audio):\n    x = torch.cat([text, audio, image])\n"
            "    cu_seqlens = torch.tensor([0, text.shape[0], image.shape[0]]).cumsum(0)\n"
            "    return {'x': x, 'cu_seqlens': cu_seqlens}\n",
            rows=(7,),
        ),
    ),
)
