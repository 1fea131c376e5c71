"""Rows were dropped between two calls that get the same boundaries.

### What it does
Reports calls whose rows were selected from what an earlier call (or an earlier round of a loop) with the same boundaries gave.

### Why is this bad?
Boundaries cannot be right for all rows and for some of them. Every boundary behind the first dropped row is off.

### Example
```python
for i, block in enumerate(blocks):
    if i == prune_at:
        x = x[scores(x) > threshold]
    x = block(x, cu_seqlens=cu_seqlens)
```

### Use instead
```python
for i, block in enumerate(blocks):
    if i == prune_at:
        keep = scores(x) > threshold
        x = x[keep]
        cu_seqlens = F.pad(keep.cumsum(0), (1, 0))[cu_seqlens]
    x = block(x, cu_seqlens=cu_seqlens)
```

### Fix safety
No fix: the maximum and other metadata need the same correction.

### References
- [flash-attention](https://github.com/Dao-AILab/flash-attention)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.rows import Change, rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import place, shown
from shapecheck.codemods.queries.rearranged import keeps_some
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, Consumer, View

_SIDES = ((("bounds", "bounds_q", "ends_q"), ("q", "x", "qkv")), (("bounds", "bounds_k", "ends_k"), ("k", "kv", "qkv")))


def check(view: View) -> Iterator[Finding]:
    """VL334."""
    for names, rows_names in _SIDES:
        taken: dict[Term, list[tuple[Consumer, Argument, Argument]]] = {}
        for consumer in view.consumers:
            meta, rows = _first(consumer, names), _first(consumer, rows_names) or _positional(consumer)
            if meta is not None and rows is not None and not meta.term.conditions and meta.term.op != "round":
                taken.setdefault(meta.term, []).append((consumer, meta, rows))
        for group in taken.values():
            for _, meta, rows in group:
                change = _dropped(view, rows.term, [(consumer, other) for consumer, _, other in group])
                if change is not None:
                    yield view.finding(
                        RULE,
                        meta.node,
                        f"`{shown(rows)}` lost rows{place(view, change.term)}, but `{shown(meta)}` is the one that already went "
                        "with all of them; derive new boundaries from what was kept",
                        notes=[(change.term.node, "rows dropped here")],
                    )
                    return


def _first(consumer: Consumer, names: tuple[str, ...]) -> Argument | None:
    return next((consumer.roles[name] for name in names if name in consumer.roles), None)


def _positional(consumer: Consumer) -> Argument | None:
    call = consumer.call
    if "q" in consumer.roles or not call.args or call.args[0] is None or isinstance(call.node.args[0], ast.Starred):
        return None
    return Argument("x", "x", call.args[0], call.node.args[0])


def _dropped(view: View, rows: Term, earlier: list[tuple[Consumer, Argument]]) -> Change | None:
    """The selection of rows from what one of the calls took or gave."""
    for branch in rows.branches():
        held = rows_of(branch)
        changes = held.flat[0].changes if len(held.parts) == 1 and not held.parts[0].each else ()
        last = changes[-1] if changes else None
        if last is None or last.term.op not in {"item", "picked"} or not _drops(view, last):
            continue
        before: Term = last.term.args[0]
        if any(other.term is before or _comes_from(view, before, consumer) for consumer, other in earlier):
            return last
    return None


def _drops(view: View, change: Change) -> bool:
    """Whether rows are left out for sure: by a test, or all but every n-th."""
    if change.kind == "pick":
        return keeps_some(view, change.detail[0])
    step = change.detail[0].args[2] if change.kind == "slice" and change.detail[0].op == "slice" else None
    return step is not None and not step.is_const(None) and not step.is_const(1) and not step.is_const(-1)


def _comes_from(view: View, rows: Term, earlier: Consumer) -> bool:
    """Whether rows are what a call gave, here or in an earlier round of a loop."""
    root = rows_of(rows).parts[0].root
    if root.op == "item" and root.args[1].is_const(0):
        root = root.args[0]
    if root is earlier.call.result:
        return True
    return root.op == "round" and any(
        binding.target == root.args[0] and earlier.call.result in {binding.value, *binding.value.children()}
        for binding in view.bindings
    )


_HEAD = "class Encoder:\n    def forward(self, x, cu_seqlens, n):\n"
_LOOP = (
    "        for i, block in enumerate(self.blocks):\n            if i == self.at:\n"
    "                keep = self.score(x).squeeze(-1) > 0.5\n                x = x[keep]\n"
)

RULE = Rule(
    "VL334",
    "boundaries-of-dropped-rows",
    "stable",
    __doc__,
    check,
    valid=(
        f"{_HEAD}{_LOOP}                cu_seqlens = self.recount(cu_seqlens, keep)\n"
        "            x = block(x, cu_seqlens=cu_seqlens, max_seqlen=n)\n        return x\n",
        f"{_HEAD}        x = x[x.abs().sum(-1) > 0]\n        x = self.first(x, cu_seqlens=cu_seqlens)\n"
        "        return self.second(x, cu_seqlens=cu_seqlens)\n",
    ),
    invalid=(
        Invalid(
            f"{_HEAD}{_LOOP}            x = block(x, cu_seqlens=cu_seqlens, max_seqlen=n)\n        return x\n",
            rows=(7,),
        ),
        Invalid(
            "from flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, kept_mask, cu, n):\n"
            "    whole = flash_attn_varlen_func(q, k, v, cu, cu, n, n)\n    k, v = k[kept_mask > 0], v[kept_mask > 0]\n"
            "    return whole + flash_attn_varlen_func(q, k, v, cu, cu, n, n)\n",
            rows=(7,),
        ),
        Invalid(
            f"{_HEAD}        x = self.first(x, cu_seqlens=cu_seqlens, max_seqlen=n)\n        x = x[self.score(x) > 0]\n"
            "        return self.second(x, cu_seqlens=cu_seqlens, max_seqlen=n)\n",
            rows=(5,),
        ),
    ),
)
