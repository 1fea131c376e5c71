"""The first rows of a position table are taken for rows of several segments.

### What it does
Finds rotary or position tables cut to the number of packed rows (`self.cos[:total]`), where the same rows go to attention with
boundaries of several segments.

### Why is this bad?
Positions count through the whole stream instead of starting at 0 in each segment: phases of all segments but the first are off.

### Example
```python
cos, sin = self.cos[: x.shape[0]], self.sin[: x.shape[0]]
q, k = rotate(q, cos, sin), rotate(k, cos, sin)
out = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, longest, longest)
```

### Use instead
```python
cos, sin = self.cos[position_ids], self.sin[position_ids]
q, k = rotate(q, cos, sin), rotate(k, cos, sin)
out = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, longest, longest)
```

### Fix safety
No fix.

### References
- [flash-attention: rotary embedding with cu_seqlens](https://github.com/Dao-AILab/flash-attention/blob/main/flash_attn/layers/rotary.py)
"""

import re
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import length_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.queries.several_segments import splits
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_TABLE = re.compile(
    r"(?:^|_)(?:cos|sin|rope|rotary|freqs?|freqs_cis|pos|positions?|position_embeddings?|pos_embed)(?:_|$)"
)


def check(view: View) -> Iterator[Finding]:
    """VL230."""
    for consumer in view.consumers:
        for _, rows, bounds, _ in consumer.sides():
            if rows is None or bounds is None or not splits(bounds.term):
                continue
            table = _table_of(rows.term)
            if table is None or table.node is None:
                continue
            yield view.finding(
                RULE,
                table.node,
                f"{named(view, table.args[0])} is read from its start for all packed rows, but {named(view, bounds.term)} splits them "
                f"into several segments{view.line(bounds.node)}; read it at the positions, which start at 0 in each segment",
                notes=[(bounds.node, "the segments"), (rows.node, "the rows")],
            )
            return


def _table_of(rows: Term) -> Term | None:
    """A table's first rows, as many as a stream has, that a call turned these rows by."""
    while rows.op in {"view", "cast", "elementwise", "item"}:
        rows = rows.args[1 if rows.op in {"view", "elementwise"} else 0]
    if rows.op != "call":
        return None
    given = [arg.args[1] if arg.op == "keyword" else arg for arg in rows.args[1:] if isinstance(arg, Term)]
    if len(given) < 2:
        return None
    for arg in given[1:]:
        found = _prefix(arg)
        if found is not None and _counts(found, given[0]):
            return found
    return None


def _prefix(term: Term) -> Term | None:
    """`self.table[:n]`."""
    while term.op in {"view", "cast", "moved", "typed_like"} or (term.op == "item" and term.args[1].op == "tuple"):
        term = term.args[1 if term.op == "view" else 0]
    if term.op != "item" or term.args[1].op != "slice" or term.args[0].op != "attr":
        return None
    owner, name = term.args[0].args
    low, high, step = term.args[1].args
    whole = (low.is_const(None) or low.is_const(0)) and step.is_const(None)
    return (
        term
        if owner.op == "self" and whole and _TABLE.search(name) is not None and length_of(high) is not None
        else None
    )


def _counts(table: Term, rows: Term) -> bool:
    """Whether the table was cut to the number of rows that these come from, on the axis of packed tokens."""
    length = length_of(table.args[1].args[1])
    return length is not None and length.axis in {0, None} and length.of in set(rows.walk())


_HEAD = "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\n"
_CLASS = (
    "class Attention(torch.nn.Module):\n"
    "    def forward(self, x, cu_seqlens, longest{more}):\n"
    "        q, k, v = self.qkv(x).chunk(3, dim=-1)\n"
    "        table = self.freqs_cis{cut}\n"
    "        q, k = rotate(q, table), rotate(k, table)\n"
    "        return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, longest, longest)\n"
)

RULE = Rule(
    "VL230",
    "table-from-its-start",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + _CLASS.format(more=", position_ids", cut="[position_ids]"),
        # Of the longest segment: each segment takes its own part.
        _HEAD + _CLASS.format(more="", cut="[:longest]"),
        # A dense batch: one segment for each sample.
        _HEAD + "class Attention(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        batch, length = x.shape[:2]\n"
        "        q, k, v = self.qkv(x).chunk(3, dim=-1)\n"
        "        q, k = rotate(q, self.freqs_cis[:length]), rotate(k, self.freqs_cis[:length])\n"
        "        cu = torch.arange(0, (batch + 1) * length, length, dtype=torch.int32)\n"
        "        return flash_attn_varlen_func(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), cu, cu, length, length)\n",
    ),
    invalid=(
        Invalid(_HEAD + _CLASS.format(more="", cut="[: x.shape[0]]"), rows=(8,)),
        Invalid(
            _HEAD + "class Attention(torch.nn.Module):\n"
            "    def forward(self, x, sizes):\n"
            "        total = x.shape[0]\n"
            "        q, k, v = (part.view(total, self.heads, -1) for part in self.qkv(x).chunk(3, dim=-1))\n"
            "        cos, sin = self.cos_table[:total], self.sin_table[:total]\n"
            "        q, k = rotate(q, cos, sin), rotate(k, cos, sin)\n"
            "        edges = torch.tensor([0, *sizes]).cumsum(0, dtype=torch.int32)\n"
            "        return flash_attn_varlen_func(q, k, v, edges, edges, max(sizes), max(sizes))\n",
            rows=(9,),
        ),
    ),
)
