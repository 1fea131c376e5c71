"""Tags or lengths are listed in another order than the parts of the rows.

### What it does
Finds rows that were joined from several parts beside tags, positions, lengths or boundaries that were made for the same parts in
another order.

### Why is this bad?
The number of values is right, so nothing fails: tokens of one part are treated as tokens of another one.

### Example
```python
x = torch.cat([condition, noise])
token_tags = torch.cat([torch.ones(len(noise)), torch.zeros(len(condition))])
```

### Use instead
```python
x = torch.cat([condition, noise])
token_tags = torch.cat([torch.zeros(len(condition)), torch.ones(len(noise))])
```

### Fix safety
Unsafe: the values change, which is the purpose; the order of the rows may be the one that is wrong.

### References
- [torch.cat](https://docs.pytorch.org/docs/stable/generated/torch.cat.html)
"""

from collections.abc import Iterator, Sequence

from shapecheck.codemods.compare import difference, sample_of
from shapecheck.codemods.engine.describe.lengths import lens_of
from shapecheck.codemods.engine.describe.rows import Part
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding, Fix, ReorderItems
from shapecheck.codemods.queries.covers import covers, packed_parts
from shapecheck.codemods.queries.naming import display_of, part_name, part_names
from shapecheck.codemods.queries.partings import first_round, partings
from shapecheck.codemods.queries.rearranged import within
from shapecheck.codemods.queries.turns import mixed_turns
from shapecheck.codemods.queries.used_once import used_once
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL202."""
    seen: set[Term] = set()
    for cover in covers(view):
        reordered = cover.difference is not None and cover.difference.kind == "order"
        if (reordered or _inserted_between(cover.row_parts, cover.parts)) and cover.meta.term not in seen:
            seen.add(cover.meta.term)
            made = cover.per_row.term if cover.per_row is not None else cover.meta.term
            yield _finding(view, cover.rows.name, cover.row_term, cover.row_parts, cover.meta.name, made, cover.parts)
    for parting in partings(view):
        if parting.difference.kind == "order" and (parts := packed_parts(rows := first_round(parting.rows.term))):
            lens = parting.measured.source
            yield _finding(view, parting.rows.name, rows, parts, parting.meta.name, lens, parting.measured.parts)
    for split in view.module.pool.by_op.get("split", ()):
        sizes = lens_of(split.args[1])
        if (
            sizes is not None
            and sizes.kind == "parts"
            and len(sizes.parts) > 1
            and within(view, split)
            and sizes.term.node is not None
        ):
            rows = first_round(split.args[0])
            joined = packed_parts(rows)
            found = difference(joined, sizes.parts)
            if found is not None and found.kind == "order":
                yield _finding(view, "the rows to split", rows, joined, "the sizes", sizes.term, sizes.parts)
    for odd, other in mixed_turns(view):
        yield view.finding(
            RULE,
            odd.term.node or odd.node,
            f"`{odd.name}` takes the parts of each sample in turn, but `{other.name}` holds one part of all samples, then the next "
            f"one{view.line(other.term.node)}; join both in the same order"
            if not odd.in_blocks
            else f"`{odd.name}` holds one part of all samples, then the next one, but `{other.name}` takes the parts of each sample "
            f"in turn{view.line(other.term.node)}; join both in the same order",
            notes=[(other.term.node, f"`{other.name}` is joined here")],
        )


def _inserted_between(rows: Sequence[Part], meta: Sequence[Part]) -> bool:
    """Whether parts were put between two pieces of a value that the tags still treat as one: [a[:1], b, a[1:]] and [a, b]."""
    if len(meta) < 2 or any(part.changes for part in meta):
        return False
    whole = [sample_of(part.root) for part in meta]
    pieces = [sample_of(part.root) for part in rows]
    if set(whole) != set(pieces) or len(set(whole)) != len(whole) or len(rows) != len(meta) + 1:
        return False
    for at in range(len(rows) - 2):
        first, last = rows[at], rows[at + 2]
        if first.root is last.root and _cut_at(first) is not None and _cut_at(first) == _cut_at(last):
            return True
    return False


def _cut_at(part: Part) -> tuple[Term, ...] | None:
    """Where a part was cut off: `x[:n]` and `x[n:]` give the same answer."""
    if len(part.changes) != 1 or part.changes[0].kind != "slice" or part.changes[0].detail[0].op != "slice":
        return None
    low, high, _ = part.changes[0].detail[0].args
    ends = tuple(end for end in (low, high) if not end.is_const(None) and not end.is_const(0))
    return ends if len(ends) == 1 else None


def _finding(
    view: View, rows: str, row_term: Term, row_parts: Sequence[Part], meta: str, made: Term, parts: Sequence[Part]
) -> Finding:
    have = ", ".join(part_names(view, row_term, row_parts))
    listed = ", ".join(part_name(view, part) for part in parts)
    message = (
        f"{_code(rows)} joined from {have}{view.line(row_term.node)}, but {_code(meta, 'follow')} the order {listed}"
    )
    node = made.node
    assert node is not None
    return view.finding(
        RULE, node, message, notes=[(row_term.node, "the rows are joined here")], fix=_fix(view, made, row_parts, parts)
    )


def _code(name: str, verb: str = "was") -> str:
    """A subject and its verb: a variable in backticks, or words as they are, which are in the plural."""
    if name.isidentifier():
        return f"`{name}` {verb}{'s' if verb != 'was' else ''}"
    return f"{name or 'the rows'} {'were' if verb == 'was' else verb}"


def _fix(view: View, made: Term, row_parts: Sequence[Part], parts: Sequence[Part]) -> Fix | None:
    display = display_of(made)
    keys = [part.key for part in parts]
    wanted = [part.key for part in row_parts]
    if display is None or len(display.elts) != len(parts) or not used_once(view, display):
        return None
    if len(set(keys)) != len(keys) or set(keys) != set(wanted) or len(wanted) != len(keys):
        return None
    order = tuple(keys.index(key) for key in wanted)
    return view.fix("Reorder to match the rows", ReorderItems(view.source.span(display), order))


_HEAD = "import torch\n\n\n"

RULE = Rule(
    "VL202",
    "tags-in-other-order",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def pack(condition, noise):\n"
        "    x = torch.cat([condition, noise])\n"
        "    token_tags = torch.cat([torch.zeros(condition.shape[0]), torch.ones(noise.shape[0])])\n"
        "    return x, token_tags\n",
        # Both are put in front: the later part comes first in both.
        _HEAD + "def pack(text, image, prefix):\n"
        "    x = torch.cat([text, image])\n"
        "    tags = torch.cat([torch.zeros(len(text)), torch.ones(len(image))])\n"
        "    x = torch.cat([prefix, x])\n"
        "    tags = torch.cat([torch.zeros(len(prefix)), tags])\n"
        "    return {'x': x, 'token_tags': tags}\n",
        _HEAD + "def pairs(examples):\n"
        "    rows = [e['chosen'] for e in examples] + [e['rejected'] for e in examples]\n"
        "    labels = [e['chosen_labels'] for e in examples] + [e['rejected_labels'] for e in examples]\n"
        "    return {'input_ids': torch.cat(rows), 'labels': torch.cat(labels)}\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def pack(condition, noise):\n"
            "    x = torch.cat([condition, noise])\n"
            "    token_tags = torch.cat([torch.ones(noise.shape[0]), torch.zeros(condition.shape[0])])\n"
            "    return x, token_tags\n",
            rows=(6,),
            fixed=_HEAD + "def pack(condition, noise):\n"
            "    x = torch.cat([condition, noise])\n"
            "    token_tags = torch.cat([torch.zeros(condition.shape[0]), torch.ones(noise.shape[0])])\n"
            "    return x, token_tags\n",
        ),
        Invalid(
            _HEAD + "def run(block, target, context):\n"
            "    x = torch.cat([target, context])\n"
            "    lens = torch.tensor([context.shape[0], target.shape[0]])\n"
            "    cu_seqlens = torch.nn.functional.pad(lens.cumsum(0), (1, 0)).int()\n"
            "    return block(x, cu_seqlens=cu_seqlens)\n",
            rows=(6,),
            fixed=_HEAD + "def run(block, target, context):\n"
            "    x = torch.cat([target, context])\n"
            "    lens = torch.tensor([target.shape[0], context.shape[0]])\n"
            "    cu_seqlens = torch.nn.functional.pad(lens.cumsum(0), (1, 0)).int()\n"
            "    return block(x, cu_seqlens=cu_seqlens)\n",
        ),
        Invalid(
            _HEAD + "def run(block, target, context, cu_seqlens):\n"
            "    x = torch.cat([target, context])\n"
            "    x = x + block.bias\n"
            "    return x.split([context.shape[0], target.shape[0]])\n",
            rows=(7,),
            fixed=_HEAD + "def run(block, target, context, cu_seqlens):\n"
            "    x = torch.cat([target, context])\n"
            "    x = x + block.bias\n"
            "    return x.split([target.shape[0], context.shape[0]])\n",
        ),
        Invalid(
            _HEAD + "def insert(words, visual):\n"
            "    hidden = torch.cat([words[:, :1], visual, words[:, 1:]], dim=1)\n"
            "    token_tags = [torch.ones(visual.shape[:2]), torch.zeros(words.shape[:2])]\n"
            "    return hidden, torch.cat(token_tags, dim=1)\n",
            rows=(7,),
        ),
        Invalid(
            _HEAD + "def pairs(examples):\n"
            "    rows = [e['chosen'] for e in examples] + [e['rejected'] for e in examples]\n"
            "    labels = []\n"
            "    for e in examples:\n"
            "        labels.append(e['chosen_labels'])\n"
            "        labels.append(e['rejected_labels'])\n"
            "    return {'input_ids': torch.cat(rows), 'labels': torch.cat(labels)}\n",
            rows=(10,),
        ),
    ),
    fixable=True,
)
