"""Two batches are joined in one order, their masks or lengths in the other.

### What it does
Finds two concatenations of the results of the same calls, `(rows, mask) = encode(prompt)` for each batch, where the masks,
lengths or ids are joined in another order than the rows.

### Why is this bad?
Every sample gets the mask of another one; in classifier-free guidance the negative prompt is read with the mask of the prompt.

### Example
```python
rows, mask = encode(prompt)
negative_rows, negative_mask = encode(negative)
rows = torch.cat([negative_rows, rows])
mask = torch.cat([mask, negative_mask])
```

### Use instead
```python
rows, mask = encode(prompt)
negative_rows, negative_mask = encode(negative)
rows = torch.cat([negative_rows, rows])
mask = torch.cat([negative_mask, mask])
```

### Fix safety
The fix puts the masks into the order of the rows. It is unsafe: the rows may be the ones that are in the wrong order.

### References
- [torch.cat](https://docs.pytorch.org/docs/stable/generated/torch.cat.html)
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding, ReorderItems
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View, name_of

_JOINING = {"cat", "concat", "concatenate"}
_METADATA = re.compile(r"mask|lens\b|lengths?\b|_ids|position")


@dataclass(frozen=True, eq=False)
class _Joined:
    call: Call
    display: ast.List | ast.Tuple
    sources: tuple[Term, ...]  # the calls that the items are results of
    place: Term  # which of their results
    described: bool  # whether they are masks, lengths or ids


def check(view: View) -> Iterator[Finding]:
    """VL240."""
    found = [joined for call in view.calls if call.name in _JOINING and (joined := _joined(call)) is not None]
    if len(found) < 2:
        return
    rows = [one for one in found if not one.described]
    for meta in (one for one in found if one.described):
        same = [one for one in rows if set(one.sources) == set(meta.sources) and one.place is not meta.place]
        if not same or any(one.sources == meta.sources for one in same):
            continue
        other = same[0]
        order = tuple(meta.sources.index(source) for source in other.sources)
        yield view.finding(
            RULE,
            meta.display,
            f"{written(other.display)} is joined in one order{view.line(other.display)} and {written(meta.display)}, which comes "
            "from the same calls, in another; join both in the same order",
            notes=[(other.display, "the rows are joined here")],
            fix=view.fix("Join in the order of the rows", ReorderItems(view.source.span(meta.display), order)),
        )


def _joined(call: Call) -> _Joined | None:
    parts = call.args[0] if call.args else None
    display = call.node.args[0] if call.node.args else None
    if parts is None or not isinstance(display, ast.List | ast.Tuple) or not 2 <= len(parts.args) == len(display.elts):
        return None
    if parts.op not in {"list", "tuple"} or not all(
        part.op == "item" and part.args[0].op == "call" for part in parts.args
    ):
        return None
    sources = tuple(part.args[0] for part in parts.args)
    places = {part.args[1] for part in parts.args}
    callees = {source.args[0] for source in sources}
    if len(set(sources)) != len(sources) or len(places) != 1 or len(callees) != 1:
        return None
    names = [name_of(elt) for elt in display.elts]
    return _Joined(call, display, sources, places.pop(), all(_METADATA.search(name) for name in names))


_HEAD = "import torch\n\n\n"

RULE = Rule(
    "VL240",
    "masks-joined-in-other-order",
    "stable",
    __doc__,
    check,
    fixable=True,
    valid=(
        _HEAD + "def f(encode, a, b):\n    rows, mask = encode(a)\n    more, more_mask = encode(b)\n"
        "    return torch.cat([more, rows]), torch.cat([more_mask, mask])\n",
        # Each side attends to the other one.
        _HEAD + "def f(encode, a, b, attend):\n    rows_a, mask_a = encode(a)\n    rows_b, mask_b = encode(b)\n"
        "    q, kv = torch.cat([rows_a, rows_b]), torch.cat([rows_b, rows_a])\n"
        "    return attend(q, kv, torch.cat([mask_b, mask_a]))\n",
    ),
    invalid=(
        Invalid(
            _HEAD
            + "class P:\n    def f(self, prompt, negative, scale):\n        embeds, prompt_mask = self.encode(prompt)\n"
            "        if scale > 1:\n            negative_embeds, negative_mask = self.encode(negative)\n"
            "            embeds = torch.cat([negative_embeds, embeds], dim=0)\n"
            "            prompt_mask = torch.cat([prompt_mask, negative_mask], dim=0)\n        return embeds, prompt_mask\n",
            rows=(10,),
            fixed=_HEAD + "class P:\n    def f(self, prompt, negative, scale):\n"
            "        embeds, prompt_mask = self.encode(prompt)\n"
            "        if scale > 1:\n            negative_embeds, negative_mask = self.encode(negative)\n"
            "            embeds = torch.cat([negative_embeds, embeds], dim=0)\n"
            "            prompt_mask = torch.cat([negative_mask, prompt_mask], dim=0)\n        return embeds, prompt_mask\n",
        ),
        Invalid(
            _HEAD + "def f(encode, chosen, rejected):\n    a = encode(chosen)\n    b = encode(rejected)\n"
            "    chosen_rows, chosen_lens = a['rows'], a['lens']\n    rejected_rows, rejected_lens = b['rows'], b['lens']\n"
            "    rows = torch.cat((chosen_rows, rejected_rows))\n    lens = torch.cat((rejected_lens, chosen_lens))\n    return rows, lens\n",
            rows=(10,),
            fixed=_HEAD + "def f(encode, chosen, rejected):\n    a = encode(chosen)\n    b = encode(rejected)\n"
            "    chosen_rows, chosen_lens = a['rows'], a['lens']\n    rejected_rows, rejected_lens = b['rows'], b['lens']\n"
            "    rows = torch.cat((chosen_rows, rejected_rows))\n    lens = torch.cat((chosen_lens, rejected_lens))\n    return rows, lens\n",
        ),
    ),
)
