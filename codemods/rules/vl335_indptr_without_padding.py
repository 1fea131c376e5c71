"""Query rows are padded to a multiple, their `qo_indptr` is built from the lengths before that.

### What it does
Reports `qo_indptr` that is the running sum of given lengths where the query rows (or the input ids beside it) were padded in the
same function to a multiple of some size, and the lengths got nothing for it.

### Why is this bad?
FlashInfer takes queries of exactly `qo_indptr[-1]` rows. With more, the plan leaves rows out: their output is whatever the
buffer held.

### Example
```python
extra = -q.shape[0] % tp_size
q = F.pad(q, (0, 0, 0, 0, 0, extra))
wrapper.plan(qo_indptr=F.pad(seq_lens.cumsum(0), (1, 0)), kv_indptr=kv_indptr)
out = wrapper.run(q, k, v)
```

### Use instead
```python
extra = -q.shape[0] % tp_size
q = F.pad(q, (0, 0, 0, 0, 0, extra))
seq_lens = F.pad(seq_lens, (0, 1), value=extra)
wrapper.plan(qo_indptr=F.pad(seq_lens.cumsum(0), (1, 0)), kv_indptr=kv_indptr)
out = wrapper.run(q, k, v)
```

### Fix safety
No fix: the padding may be a segment of its own or belong to the last one.

### References
- [FlashInfer: BatchPrefillWithRaggedKVCacheWrapper](https://docs.flashinfer.ai/api/attention.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.compare import worlds
from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.describe.rows import Change
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.history import traced
from shapecheck.codemods.queries.partings import place, shown
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View

_NAMES = {"qo_indptr", "q_indptr", "qo_indptr_buf"}
_ROWS = {"rows", "positions", "x"}


def check(view: View) -> Iterator[Finding]:
    """VL335."""
    if not view.module.pool.by_op.get("Mod"):
        return
    for meta, rows in (*_planned(view), *_stored(view)):
        bounds = bounds_of(meta.term)
        if bounds is None or bounds.appended or not _is_given(plain(bounds.source)):
            continue
        padding = next((found for (world,) in worlds(rows.term) if (found := _padding(world)) is not None), None)
        if padding is not None:
            yield view.finding(
                RULE,
                meta.node,
                f"`{shown(rows)}` was padded to a multiple{place(view, padding.term)}, but `{shown(meta)}` sums up the lengths "
                "before that; count the padding in the lengths",
                notes=[(padding.term.node, "padded here")],
            )
            return


def _planned(view: View) -> Iterator[tuple[Argument, Argument]]:
    """The boundaries of `wrapper.plan` and the queries of `wrapper.run`."""
    for plan in view.calls:
        keyword = next((name for name in plan.kwargs if name in _NAMES), None)
        node = None if keyword is None else plan.arg_node(None, keyword)
        if keyword is None or node is None or plan.receiver is None:
            continue
        for run in view.calls:
            if run.order > plan.order and run.receiver is plan.receiver and run.args and run.args[0] is not None:
                meta = Argument("bounds_q", keyword, plan.kwargs[keyword], node)
                yield meta, Argument("q", "", run.args[0], run.node.args[0])
                break


def _stored(view: View) -> Iterator[tuple[Argument, Argument]]:
    """The boundaries and the rows that are set as fields of one object."""
    fields: dict[str, list[Argument]] = {}
    for binding in view.bindings:
        base, _, name = binding.target.rpartition(".")
        if base and base != "self" and name.isidentifier():
            role = view.catalogue.role_of(name) or ""
            fields.setdefault(base, []).append(Argument(role, name, binding.value, binding.value_node or binding.node))
    for members in fields.values():
        for meta in members:
            if meta.name in _NAMES:
                yield from ((meta, rows) for rows in members if rows.role in _ROWS)


def _is_given(lens: Term) -> bool:
    """Whether lengths are a parameter or a field of one, as it came."""
    while lens.op == "attr":
        lens = lens.args[0]
    return lens.op == "parameter"


def _padding(rows: Term) -> Change | None:
    """The padding of given rows by what they lack to a multiple."""
    root, changes = traced(rows)
    if not changes or changes[-1].kind != "pad" or not _is_given(root):
        return None
    return changes[-1] if any(inner.op == "Mod" for size in changes[-1].detail for inner in size.walk()) else None


_HEAD = "import torch\nimport torch.nn.functional as F\n\n\nclass Prefill:\n    def run(self, q, k, v, lens):\n"
_PLAN = (
    "        indptr = F.pad(lens.cumsum(0), (1, 0)).int()\n        self.wrapper.plan(qo_indptr=indptr, kv_indptr=indptr)\n"
    "        return self.wrapper.run(q, k, v)\n"
)
_FIELDS = (
    "import torch.nn.functional as F\n\n\ndef scatter(batch, tp):\n    pad = -batch.input_ids.shape[0] % tp\n    if pad:\n"
    "        batch.input_ids = F.pad(batch.input_ids, (0, pad))\n"
)

RULE = Rule(
    "VL335",
    "indptr-without-padding",
    "stable",
    __doc__,
    check,
    valid=(
        f"{_HEAD}{_PLAN}",
        f"{_HEAD}        extra = -q.shape[0] % self.tp\n        q = F.pad(q, (0, 0, 0, 0, 0, extra))\n"
        f"        lens = F.pad(lens, (0, 1), value=extra)\n{_PLAN}",
        f"{_FIELDS}        batch.lens = F.pad(batch.lens, (0, 1), value=pad)\n"
        "    batch.qo_indptr = F.pad(batch.lens.cumsum(0), (1, 0))\n    return batch\n",
    ),
    invalid=(
        Invalid(
            f"{_HEAD}        extra = -q.shape[0] % self.tp\n        q = F.pad(q, (0, 0, 0, 0, 0, extra))\n{_PLAN}",
            rows=(10,),
        ),
        Invalid(f"{_FIELDS}    batch.qo_indptr = F.pad(batch.lens.cumsum(0), (1, 0))\n    return batch\n", rows=(8,)),
    ),
)
