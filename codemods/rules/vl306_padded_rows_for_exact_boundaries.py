"""Rows are padded for an operator that wants exactly as many rows as its last boundary says.

### What it does
Reports operators that demand `rows == last boundary` (the TND layout of `torch_npu`) where the rows were padded in the
same function by what they lack to a given size, and the boundaries are passed on as they came in.

### Why is this bad?
The operator refuses the call, or, with checks off, reads uninitialized rows. It shows only when a batch does not fill
the graph.

### Example
```python
q = F.pad(q, (0, 0, 0, 0, 0, graph_tokens - q.shape[0]))
out = torch_npu.npu_fused_infer_attention_score(q, k, v, actual_seq_lengths=meta.ends, input_layout="TND")
```

### Use instead
```python
ends = [*meta.ends, graph_tokens]
out = torch_npu.npu_fused_infer_attention_score(q, k, v, actual_seq_lengths=ends, input_layout="TND")
```

### Fix safety
No fix: lengths of keys and block tables need an entry for the padding too.

### References
- [vllm-ascend#4518](https://github.com/vllm-project/vllm-ascend/pull/4518)
"""

from collections.abc import Iterator

from shapecheck.codemods.compare import worlds
from shapecheck.codemods.engine.describe.lengths import length_of, plain
from shapecheck.codemods.engine.describe.rows import rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import place, shown
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL306."""
    for consumer in view.consumers:
        if consumer.sink is None or not consumer.sink.exact:
            continue
        rows, ends = consumer.roles.get("q"), consumer.roles.get("ends_q")
        if rows is None or ends is None or not _as_given(ends.term):
            continue
        added = next((found for (world,) in worlds(rows.term) if (found := _padding(world)) is not None), None)
        if added is not None:
            yield view.finding(
                RULE,
                ends.node,
                f"`{shown(rows)}` was padded{place(view, added)} but `{shown(ends)}` still ends at the rows before "
                f"that, and `{consumer.call.name}` wants as many rows as the last entry says; add an entry for the "
                "padding",
                notes=[(added.node, "rows padded here")],
            )


def _padding(rows: Term) -> Term | None:
    """The padding of rows by an amount that depends on how many they are."""
    held = rows_of(rows)
    root = held.parts[0].root
    for change in held.all_changes:
        if change.kind == "pad" and any(_counts(inner, root) for inner in change.term.args[1].walk()):
            return change.term
    filler = plain(held.parts[-1].root)
    if len(held.parts) == 2 and filler.op == "full" and any(_counts(inner, root) for inner in filler.walk()):
        return filler
    return None


def _counts(size: Term, root: Term) -> bool:
    length = length_of(size)
    return length is not None and [part.root for part in length.rows.parts] == [root]


def _as_given(term: Term) -> bool:
    """Whether a value is a parameter, or read from one, without any change."""
    while term.op in {"attr", "item", "host", "copy", "moved"}:
        term = term.args[0]
    return term.op in {"parameter", "self"}


_CALL = (
    "    return torch_npu.npu_fused_infer_attention_score(q, k, v, input_layout='TND', actual_seq_lengths={ends},\n"
    "        actual_seq_lengths_kv=meta.kv_lens)[0]\n"
)

RULE = Rule(
    "VL306",
    "padded-rows-for-exact-boundaries",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch_npu\nimport torch.nn.functional as F\n\n\ndef f(q, k, v, meta, size):\n"
        "    q = F.pad(q, (0, 0, 0, 0, 0, size - q.shape[0]))\n" + _CALL.format(ends="[*meta.ends, size]"),
        "import torch_npu\n\n\ndef f(q, k, v, meta):\n" + _CALL.format(ends="meta.ends"),
    ),
    invalid=(
        Invalid(
            "import torch_npu\nimport torch.nn.functional as F\n\n\ndef f(q, k, v, meta, size):\n"
            "    q = F.pad(q, (0, 0, 0, 0, 0, size - q.shape[0]))\n" + _CALL.format(ends="meta.ends"),
            rows=(7,),
        ),
        Invalid(
            "import torch_npu\nfrom torch.nn import functional as F\n\n\ndef f(q, k, v, meta, unit, ends):\n"
            "    n = q.shape[0]\n    q = F.pad(q, (0, 0, 0, 0, 0, -n % unit))\n" + _CALL.format(ends="ends.tolist()"),
            rows=(8,),
        ),
    ),
)
