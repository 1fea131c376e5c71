"""Rows are padded to a multiple, their segment tags keep the length before that.

### What it does
Reports segment tags (`seq_idx`, segment ids) that are given on as they came beside rows which were padded in the function to a
multiple of some size.

### Why is this bad?
The tags have no entry for the padded rows: a kernel reads past their end, and state runs from the last segment into the padding.

### Example
```python
extra = -u.shape[1] % chunk_size
u = F.pad(u, (0, 0, 0, extra))
y = mamba_chunk_scan_combined(u, dt, a, b, c, chunk_size, seq_idx=seq_idx)
```

### Use instead
```python
extra = -u.shape[1] % chunk_size
u = F.pad(u, (0, 0, 0, extra))
seq_idx = F.pad(seq_idx, (0, extra), value=-1)
y = mamba_chunk_scan_combined(u, dt, a, b, c, chunk_size, seq_idx=seq_idx)
```

### Fix safety
No fix: the tag of the padding may be the last one or one of its own.

### References
- [mamba: ssd_combined](https://github.com/state-spaces/mamba/blob/main/mamba_ssm/ops/triton/ssd_combined.py)
"""

from collections.abc import Iterator

from shapecheck.codemods.compare import worlds
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import first_round, place
from shapecheck.codemods.queries.row_chain import chain
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, Consumer, View

_TAGS = ("tags", "tags_q")


def check(view: View) -> Iterator[Finding]:
    """VL341."""
    made = view.module.pool.by_op
    if "Mod" not in made or not ("pad" in made or "cat" in made):
        return
    for consumer in view.consumers:
        meta = next((consumer.roles[role] for role in _TAGS if role in consumer.roles), None)
        rows = _rows(consumer)
        if meta is None or rows is None:
            continue
        for rows_term, tags in worlds(first_round(rows), first_round(meta.term), context=consumer.call.context):
            padding = _padding(rows_term) if _is_given(tags) else None
            if padding is not None:
                yield _finding(view, meta, padding)
                break


def _finding(view: View, meta: Argument, padding: Term) -> Finding:
    return view.finding(
        RULE,
        meta.node,
        f"the rows were padded to a multiple{place(view, padding)}, but `{view.source.code(meta.node)}` has no tags for the padding; "
        "pad it alike",
        notes=[(padding.node, "rows padded here")],
    )


def _rows(consumer: Consumer) -> Term | None:
    given = consumer.roles.get("x") or consumer.roles.get("q")
    if given is not None:
        return given.term
    return consumer.call.args[0] if consumer.call.args else None


def _is_given(tags: Term) -> bool:
    """Whether tags are an argument of the function, or a field of one, as it came."""
    tags = plain(tags)
    while tags.op == "attr" or (tags.op == "item" and isinstance(tags.args[1].value, str)):
        tags = tags.args[0]
    return tags.op == "parameter"


def _padding(rows: Term) -> Term | None:
    """The padding of given rows along the tokens by what they lack to a multiple."""
    padding: Term | None = None
    for step in _history(rows):
        if step.op == "pad" and padding is None and _to_multiple(step):
            padding = step
        if step.op == "parameter":
            return padding
    return None


def _history(rows: Term) -> Iterator[Term]:
    """What rows come from, also through a split of their features."""
    for step in chain(rows):
        yield step
        if step.op in {"split", "chunk"} and _of_features(step):
            yield from _history(step.args[0])


def _of_features(pieces: Term) -> bool:
    axis = pieces.args[2].value
    return isinstance(axis, int) and (axis == -1 or axis > 1)


def _to_multiple(pad: Term) -> bool:
    """`F.pad(x, (0, 0, 0, n))` behind the rows, with the remainder of a division in n."""
    amounts = pad.args[1]
    if amounts.op not in {"tuple", "list"} or len(amounts.args) not in {4, 6}:
        return False
    *others, last = amounts.args
    return all(amount.is_const(0) for amount in others) and any(inner.op == "Mod" for inner in last.walk())


_HEAD = (
    "import torch.nn.functional as F\nfrom mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined\n\n\n"
    "class Mixer:\n    def forward(self, u, seq_idx):\n        extra = -u.shape[1] % self.chunk\n"
)
_SCAN = (
    "        x, b, c, dt = self.in_proj(u).split(self.sizes, dim=-1)\n"
    "        return mamba_chunk_scan_combined(x.unflatten(-1, (8, -1)), dt, self.a, b, c, self.chunk, seq_idx=seq_idx)\n"
)

RULE = Rule(
    "VL341",
    "tags-without-padding",
    "stable",
    __doc__,
    check,
    valid=(
        f"{_HEAD}        u, seq_idx = F.pad(u, (0, 0, 0, extra)), F.pad(seq_idx, (0, extra), value=-1)\n{_SCAN}",
        f"{_HEAD}        if extra:\n            u = F.pad(u, (0, 0, 0, extra))\n            seq_idx = F.pad(seq_idx, (0, extra))\n{_SCAN}",
        # Features are padded, not rows.
        f"{_HEAD}        u = F.pad(u, (0, -u.shape[-1] % 8))\n{_SCAN}",
    ),
    invalid=(
        Invalid(f"{_HEAD}        u = F.pad(u, (0, 0, 0, extra))\n{_SCAN}", rows=(10,)),
        Invalid(f"{_HEAD}        if extra > 0:\n            u = F.pad(u, (0, 0, 0, extra))\n{_SCAN}", rows=(11,)),
        Invalid(
            "import torch.nn.functional as F\n\n\ndef forward(self, x, segment_ids):\n"
            "    short = (self.block - x.size(1) % self.block) % self.block\n    x = self.norm(F.pad(x, (0, 0, 0, short)))\n"
            "    for layer in self.layers:\n        x = layer(x, segment_ids=segment_ids)\n    return x\n",
            rows=(8,),
        ),
    ),
)
