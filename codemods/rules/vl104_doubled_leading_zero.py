"""Boundaries get a second leading zero.

### What it does
Reports boundaries that had a zero in front already when another one was put there.

### Why is this bad?
The second zero is an empty segment: everything that numbers segments (lengths, tags, per-segment results) moves by one against the
samples, and the number of segments no longer equals the number of samples.

### Example
```python
cu_seqlens = [0, *itertools.accumulate(lens, initial=0)]
```

### Use instead
```python
cu_seqlens = [*itertools.accumulate(lens, initial=0)]
```

### Fix safety
No fix: either zero may be the one to keep.

### References
- [itertools.accumulate](https://docs.python.org/3/library/itertools.html#itertools.accumulate)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.compare import worlds
from shapecheck.codemods.engine.describe.bounds import bounds_of, zero_rows
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.growing import is_offset
from shapecheck.codemods.queries.joined_boundaries import joined
from shapecheck.codemods.queries.located import located
from shapecheck.codemods.queries.names import outer_name
from shapecheck.codemods.queries.slots import BOUNDS, slots
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL104."""
    reported: set[ast.AST | None] = set()
    for slot in slots(view, BOUNDS):
        if (starts := _starts_behind_zero(view, slot.term)) is not None:
            yield view.finding(
                RULE,
                slot.node,
                f"{slot.shown} has 2 leading zeros: it begins with 0, and the first start behind it"
                f"{view.line(starts.node)} is 0 as well; keep one",
                notes=[(starts.node, "the first start is 0")],
            )
            continue
        if (kept := _zeros_of_packs(view, slot.term)) is not None:
            yield view.finding(
                RULE,
                kept.node or slot.node,
                f"the boundaries of each pack start with 0, so in {slot.shown} the end of each pack is followed by the same number "
                "again; leave out the first boundary of each, `[1:]`",
                notes=[(slot.node, "used as boundaries here")],
            )
            continue
        found = (bounds_of(world) for (world,) in worlds(slot.term))
        bounds = next((bounds for bounds in found if bounds is not None and bounds.zeros > 1), None)
        if bounds is not None and bounds.term.node not in reported:
            reported.add(bounds.term.node)
            yield view.finding(
                RULE,
                slot.node,
                f"{slot.shown} has {bounds.zeros} leading zeros: the sum{view.line(bounds.term.node)} had its zero "
                "already when another was put in front; keep one",
                notes=[(bounds.term.node, "boundaries with more than one leading zero")],
            )


def _starts_behind_zero(view: View, term: Term) -> Term | None:
    """The starts, if the term is `[0, *starts, ...]`: offsets that a loop collects, or the rows with position 0."""
    whole = joined(term)
    if len(whole.pieces) > 1 and not whole.unique and zero_rows(whole.pieces[0]):
        found = located(whole.pieces[1], view)
        if found is not None and found.kind == "starts" and found.early == 0:
            return found.term
    term = plain(term)
    while term.op == "append":
        term = term.args[0]
    if term.op != "Add" or term.args[0].op != "list" or not term.args[0].args or not term.args[0].args[-1].is_const(0):
        return None
    starts: Term = term.args[1]
    return starts if starts.op == "each" and len(starts.args) == 2 and is_offset(view, starts.args[0]) else None


def _zeros_of_packs(view: View, term: Term) -> Term | None:
    """The boundaries that are moved and joined, pack after pack, if the first of each is among them."""
    whole = joined(term)
    if whole.unique:
        return None
    for piece in whole.pieces:
        each = _of_one_pack(piece)
        if each.op != "each" or len(each.args) != 2 or each.args[0].op != "Add":
            continue
        element: Term = each.args[0]
        source = each.args[1]
        for side in element.args:
            moved = plain(side)
            of_list = moved.op == "elem" and moved.args[0] is source and _is_pack(view, source)
            if of_list or (_is_pack(view, moved) and moved.args[0] is element.pool.make("elem", source)):
                return element
    return None


def _of_one_pack(piece: Term) -> Term:
    """What a loop over packs adds in one round."""
    if piece.op == "rounds" and piece.args[1].op in {"Add", "extend"}:
        return _of_one_pack(piece.args[1].args[1])
    if piece.op == "star" or (piece.op == "each" and len(piece.args) == 2 and piece.args[0].op == "star"):
        return _of_one_pack(piece.args[0])
    return piece


def _is_pack(view: View, term: Term) -> bool:
    """Whether a value is the boundaries of one of several packs, as they came."""
    name = outer_name(term)
    return name is not None and view.catalogue.role_of(name) in BOUNDS and term.args[0].op == "elem"


RULE = Rule(
    "VL104",
    "doubled-leading-zero",
    "stable",
    __doc__,
    check,
    valid=(
        "from itertools import accumulate\n\n\ndef f(block, x, lens):\n"
        "    return block(x, cu_seqlens=list(accumulate(lens, initial=0)))\n",
        "import torch\n\n\ndef f(block, x, lens):\n    cu = torch.tensor([0, *lens]).cumsum(0)\n"
        "    cu = torch.unique_consecutive(torch.nn.functional.pad(cu, (1, 0)))\n    return block(x, cu_seqlens=cu)\n",
        "import torch\n\n\ndef f(position_ids):\n    starts = (position_ids == 0).nonzero().flatten()[1:]\n"
        "    cu_seqlens = torch.cat([starts.new_zeros(1), starts, starts.new_tensor([position_ids.numel()])])\n    return cu_seqlens\n",
        "import torch\n\n\ndef f(position_ids):\n    starts = (position_ids == 0).nonzero().flatten()\n"
        "    cu_seqlens = torch.cat([starts.new_zeros(1), starts, starts.new_tensor([position_ids.numel()])]).unique()\n"
        "    return cu_seqlens\n",
        "def f(packs):\n    cu_seqlens = [0]\n    for pack in packs:\n        last = cu_seqlens[-1]\n"
        "        cu_seqlens.extend([last + end for end in pack['cu_seqlens'][1:]])\n    return cu_seqlens\n",
    ),
    invalid=(
        Invalid(
            "def f(packs):\n    cu_seqlens = [0]\n    for pack in packs:\n        last = cu_seqlens[-1]\n"
            "        cu_seqlens += [last + end for end in pack['cu_seqlens']]\n    return cu_seqlens\n",
            rows=(5,),
        ),
        Invalid(
            "import torch\n\n\ndef f(packs):\n    moved, offset = [], 0\n    for pack in packs:\n"
            "        moved.append(pack.cu_seqlens + offset)\n        offset += int(pack.cu_seqlens[-1])\n"
            "    return {'cu_seqlens': torch.cat(moved), 'x': torch.cat([pack.x for pack in packs])}\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\n\n\ndef f(position_ids):\n    starts = torch.where(position_ids == 0)[0]\n"
            "    cu_seqlens = torch.nn.functional.pad(starts, (1, 1), value=0)\n    cu_seqlens[-1] = len(position_ids)\n"
            "    return cu_seqlens\n",
            rows=(8,),
        ),
        Invalid(
            "def f(position_ids, x):\n    cu_seqlens = [0]\n    for i, place in enumerate(position_ids):\n        if place == 0:\n"
            "            cu_seqlens.append(i)\n    cu_seqlens.append(len(position_ids))\n    return {'x': x, 'cu_seqlens': cu_seqlens}\n",
            rows=(7,),
        ),
        Invalid(
            "from itertools import accumulate\n\n\ndef f(block, x, lens):\n"
            "    return block(x, cu_seqlens=[0, *accumulate(lens, initial=0)])\n",
            rows=(5,),
        ),
        Invalid(
            "import torch\nfrom torch.nn.functional import pad\n\n\ndef f(lens, x):\n"
            "    cu_seqlens = torch.tensor([0] + lens).cumsum(0)\n    cu_seqlens = pad(cu_seqlens, (1, 0))\n"
            "    return x, cu_seqlens\n",
            rows=(8,),
        ),
        Invalid(
            "def f(docs):\n    cu_seqlens, offset = [0], 0\n    for doc in docs:\n        cu_seqlens.append(offset)\n"
            "        offset += len(doc)\n    cu_seqlens.append(offset)\n    return docs, cu_seqlens\n",
            rows=(7,),
        ),
    ),
)
