"""Position ids count through all samples of a pack instead of starting again in each one.

### What it does
Finds position ids made by one `arange` over rows that were joined from several samples, or over rows that are passed on together
with boundaries of their segments.

### Why is this bad?
Rotary phases and learned positions of every sample but the first are shifted; kernels that derive the boundaries from the position
ids see one single sample. Nothing fails.

### Example
```python
input_ids = torch.cat([s["input_ids"] for s in samples])
position_ids = torch.arange(len(input_ids))
```

### Use instead
```python
input_ids = torch.cat([s["input_ids"] for s in samples])
position_ids = torch.cat([torch.arange(len(s["input_ids"])) for s in samples])
```

### Fix safety
No fix.

### References
- [transformers: packing with position ids](https://huggingface.co/blog/packing-with-FA2)
"""

from collections.abc import Iterator

from shapecheck.codemods.compare import sample_of
from shapecheck.codemods.engine.describe.rows import Part, rows_of
from shapecheck.codemods.engine.describe.tags import per_row_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.queries.covers import covers
from shapecheck.codemods.queries.naming import part_name
from shapecheck.codemods.queries.run_on import counted_through, run_on
from shapecheck.codemods.queries.several_segments import splits
from shapecheck.codemods.queries.words import words
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

# What one sample consists of.
_PIECES = frozenset(
    {"turn", "message", "chunk", "piece", "part", "block", "span", "word", "sentence", "frame", "patch", "tile"}
)
_BOUNDS = frozenset({"bounds", "bounds_q", "bounds_k"})


def check(view: View) -> Iterator[Finding]:
    """VL204."""
    seen: set[Term] = set()
    for cover in covers(view):
        made = cover.per_row
        if made is None or made.kind != "contiguous" or cover.meta.role != "positions" or cover.meta.term in seen:
            continue
        if not made.from_zero or not _same_samples(cover.row_parts, cover.parts):
            continue
        each = part_name(view, cover.row_parts[0])
        if _is_of_one_sample(each, cover.row_parts[0]):
            continue
        seen.add(cover.meta.term)
        rows = cover.rows.name or "the rows"
        yield view.finding(
            RULE,
            made.term.node or cover.meta.node,
            f"`{rows}` was joined from {each}{view.line(cover.row_term.node)}, but `{cover.meta.name}` counts through all of them; "
            "start again at 0 in each sample",
            notes=[(cover.row_term.node, f"`{rows}` is joined here")],
        )
    by_op = view.module.pool.by_op
    if "arange" in by_op:
        yield from _beside_boundaries(view)
    if "arange" in by_op and "round" in by_op:
        for binding, count in run_on(view):
            yield view.finding(
                RULE,
                binding.node,
                f"`{binding.target}` goes on counting where the sample before ended, but the samples are kept apart by the length of each"
                f"{view.line(count.node)}; start again at 0 in each sample",
                notes=[(count.node, "the length of one sample")],
            )
    if "cumsum" in by_op:
        yield from _counted_through(view)


def _counted_through(view: View) -> Iterator[Finding]:
    """The running sum of a mask whose rows hold several numbered samples."""
    seen: set[Term] = set()
    for company in companies(view):
        for member in company.members:
            beside = [
                other.term for other in company.members if other is not member and not other.role.startswith("mask")
            ]
            numbers = counted_through(member.term, beside) if member.role == "positions" else None
            if numbers is None or member.term in seen:
                continue
            seen.add(member.term)
            yield view.finding(
                RULE,
                member.term.node or member.node,
                f"`{member.name}` counts all tokens of a row, but a row holds several samples"
                f"{view.line(numbers.node)}; start again at 0 in each sample",
                notes=[(numbers.node, "the samples of a row")],
            )


def _beside_boundaries(view: View) -> Iterator[Finding]:
    """One count over rows whose call is told their boundaries."""
    for company in companies(view):
        bounds = next((member for member in company.members if member.role in _BOUNDS and splits(member.term)), None)
        if bounds is None:
            continue
        for member in company.members:
            made = per_row_of(member.term) if member.role == "positions" else None
            if made is None or made.kind != "contiguous" or not made.from_zero or len(made.parts) != 1:
                continue
            counted = {part.key for part in made.parts}
            rows = next(
                (other for other in company.members if {part.key for part in rows_of(other.term).flat} == counted), None
            )
            if rows is not None and rows is not member:
                yield view.finding(
                    RULE,
                    made.term.node or member.node,
                    f"`{member.name}` counts through all rows of `{rows.name}`, but `{bounds.name}` says that these are several "
                    "segments; start again at 0 in each of them",
                    notes=[(bounds.node, f"the segments of `{rows.name}`")],
                )


def _same_samples(rows: tuple[Part, ...], counted: tuple[Part, ...]) -> bool:
    """Whether the rows of all samples in turn were counted at once."""
    return (
        len(rows) == len(counted) == 1
        and rows[0].each
        and counted[0].each
        and sample_of(rows[0].root) is sample_of(counted[0].root)
    )


def _is_of_one_sample(shown: str, part: Part) -> bool:
    """Whether the rows may be one sample in pieces: cut by `split` or `chunk`, or by what they are called."""
    if any(change.kind == "piece" for change in part.changes):
        return True
    named = words(shown).union(*(words(str(term.args[0])) for term in part.root.walk() if term.op == "parameter"))
    return not {word.removesuffix("s") for word in named}.isdisjoint(_PIECES)


_HEAD = "import torch\n\n\n"

RULE = Rule(
    "VL204",
    "positions-across-samples",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def pack(samples):\n"
        "    input_ids = torch.cat([s['input_ids'] for s in samples])\n"
        "    position_ids = torch.cat([torch.arange(len(s['input_ids'])) for s in samples])\n"
        "    return {'input_ids': input_ids, 'position_ids': position_ids}\n",
        # One sample of two parts.
        _HEAD + "def join(prompt, answer):\n"
        "    input_ids = torch.cat([prompt, answer])\n"
        "    return {'input_ids': input_ids, 'position_ids': torch.arange(len(input_ids))}\n",
        # One segment for each row of a dense batch.
        _HEAD + "def step(model, input_ids):\n"
        "    batch, length = input_ids.shape\n"
        "    cu_seqlens = torch.arange(0, (batch + 1) * length, length)\n"
        "    return model(input_ids, position_ids=torch.arange(length), cu_seqlens=cu_seqlens)\n",
        # Reset by the start of each segment.
        _HEAD + "def step(model, input_ids, cu_seqlens):\n"
        "    position_ids = torch.arange(input_ids.shape[0])\n"
        "    position_ids = position_ids - torch.repeat_interleave(cu_seqlens[:-1], cu_seqlens.diff())\n"
        "    return model(input_ids, position_ids=position_ids, cu_seqlens=cu_seqlens)\n",
        # Turns of one conversation.
        "def build(turns):\n"
        "    input_ids, position_ids, labels = [], [], []\n"
        "    for turn in turns:\n"
        "        n = len(turn['input_ids'])\n"
        "        position_ids += list(range(len(input_ids), len(input_ids) + n))\n"
        "        input_ids += turn['input_ids']\n"
        "        labels += turn['labels']\n"
        "    return {'input_ids': input_ids, 'labels': labels, 'position_ids': position_ids}\n",
        "import torch\n\n\ndef build(turns):\n    input_ids = torch.cat([turn['input_ids'] for turn in turns])\n"
        "    return {'input_ids': input_ids, 'position_ids': torch.arange(len(input_ids))}\n",
        # Pieces of one sample.
        "import torch\n\n\ndef run(model, mlp, x):\n    hidden = torch.cat([mlp(rows) for rows in x.split(64)])\n"
        "    return model(hidden, position_ids=torch.arange(hidden.shape[0]))\n",
        # One sample in each row.
        _HEAD + "def collate(samples):\n"
        "    input_ids = torch.stack([s['input_ids'] for s in samples])\n"
        "    return {'input_ids': input_ids, 'position_ids': torch.arange(input_ids.shape[1])}\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def step(model, batch):\n"
            "    input_ids = batch['input_ids']\n"
            "    position_ids = torch.arange(input_ids.shape[1]).unsqueeze(0)\n"
            "    return model(input_ids, position_ids=position_ids, cu_seqlens=batch['cu_seqlens'])\n",
            rows=(6,),
        ),
        Invalid(
            _HEAD + "def pack(samples):\n"
            "    input_ids = torch.cat([s['input_ids'] for s in samples])\n"
            "    return {'input_ids': input_ids, 'position_ids': torch.arange(len(input_ids))}\n",
            rows=(6,),
        ),
        Invalid(
            "def pack(samples):\n"
            "    input_ids, labels = [], []\n"
            "    for s in samples:\n"
            "        input_ids += s['input_ids']\n"
            "        labels += s['labels']\n"
            "    return {'input_ids': input_ids, 'labels': labels, 'position_ids': list(range(len(input_ids)))}\n",
            rows=(6,),
        ),
        Invalid(
            "def pack(samples):\n"
            "    input_ids, position_ids, seq_lens = [], [], []\n"
            "    start = 0\n"
            "    for s in samples:\n"
            "        n = len(s['input_ids'])\n"
            "        input_ids.extend(s['input_ids'])\n"
            "        position_ids.extend(range(start, start + n))\n"
            "        seq_lens.append(n)\n"
            "        start += n\n"
            "    return {'input_ids': input_ids, 'position_ids': position_ids, 'seq_lens': seq_lens}\n",
            rows=(7,),
        ),
        Invalid(
            _HEAD + "def collate(documents):\n"
            "    input_ids = torch.cat(documents)[None]\n"
            "    attention_mask = torch.cat([torch.full_like(d, i + 1) for i, d in enumerate(documents)])[None]\n"
            "    position_ids = (attention_mask != 0).long().cumsum(-1) - 1\n"
            "    return {'input_ids': input_ids, 'attention_mask': attention_mask, 'position_ids': position_ids}\n",
            rows=(7,),
        ),
    ),
)
