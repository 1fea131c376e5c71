"""The sum of the lengths does not count the entries that were filled in behind them.

### What it does
Reports a call that takes lengths from a buffer that is filled up behind the real ones, together with the sum of the
real ones.

### Why is this bad?
The buffers that the callee sizes by the sum are too small for the lengths that it reads.

### Example
```python
self.seq_lens.fill_(self.fill_value)
self.seq_lens[:n].copy_(batch.seq_lens)
backend.prepare(self.seq_lens[:size], seq_lens_sum=batch.seq_lens_sum)
```

### Use instead
```python
self.seq_lens.fill_(self.fill_value)
self.seq_lens[:n].copy_(batch.seq_lens)
backend.prepare(self.seq_lens[:size], seq_lens_sum=batch.seq_lens_sum + (size - n) * self.fill_value)
```

### Fix safety
No fix: how many entries were filled in is not always at hand.

### References
- [sglang#1789](https://github.com/sgl-project/sglang/pull/1789)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import place
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL315."""
    for call in view.calls:
        if len(call.args) + len(call.kwargs) < 2:
            continue
        given = [*zip(call.args, call.node.args, strict=False)]
        given += [(call.kwargs.get(word.arg or ""), word.value) for word in call.node.keywords]
        for total, node in given:
            of = None if total is None else _summed(total)
            stored = (
                None
                if of is None
                else next((found for term, _ in given if term and (found := _filled(term, of))), None)
            )
            if stored is not None:
                yield view.finding(
                    RULE,
                    node,
                    "this is the sum of the real lengths only, but the lengths that go with it were filled up behind "
                    f"those{place(view, stored)}; add what was filled in",
                    notes=[(stored.node, "real lengths copied into the filled buffer here")],
                )


def _summed(total: Term) -> Term | None:
    """The lengths whose sum a value is: `lens.sum()`, or the field `x_sum` beside `x`."""
    total = plain(total)
    if total.op == "sum" and len(total.args) == 1:
        return plain(total.args[0])
    if total.op == "attr" and str(total.args[1]).endswith("_sum"):
        return total.pool.make("attr", total.args[0], str(total.args[1]).removesuffix("_sum"))
    return None


def _filled(term: Term, lens: Term) -> Term | None:
    """The store of the lengths into the front of a buffer that was filled with another number than 0."""
    inner = plain(term)
    if inner.op != "item" or inner.args[1].op != "slice":
        return None
    store = inner.args[0]
    if store.op != "store" or plain(store.args[2]) is not lens or store.args[1] is inner.args[1]:
        return None
    base = plain(store.args[0])
    value = base.args[1] if base.op == "filled" else base
    if value.op in {"full", "full_like"}:
        fill = value.args[0 if value.op == "full" else 1]
        return None if fill.is_const(0) or fill.op == "anything" else store
    return None


_HEAD = "class Graph:\n    def replay(self, batch, backend, n, size):\n"

RULE = Rule(
    "VL315",
    "sum-without-padding",
    "stable",
    __doc__,
    check,
    valid=(
        f"{_HEAD}        self.seq_lens.fill_(0)\n        self.seq_lens[:n].copy_(batch.seq_lens)\n"
        "        backend.prepare(self.seq_lens[:size], seq_lens_sum=batch.seq_lens_sum)\n",
        f"{_HEAD}        self.seq_lens.fill_(self.fill)\n        self.seq_lens[:n].copy_(batch.seq_lens)\n"
        "        backend.prepare(self.seq_lens[:size], seq_lens_sum=batch.seq_lens_sum + (size - n) * self.fill)\n",
    ),
    invalid=(
        Invalid(
            f"{_HEAD}        self.seq_lens.fill_(self.fill)\n        self.seq_lens[:n].copy_(batch.seq_lens)\n"
            "        backend.prepare(self.seq_lens[:size], seq_lens_sum=batch.seq_lens_sum)\n",
            rows=(5,),
        ),
        Invalid(
            "import torch\n\n\ndef f(prepare, seq_lens, n, size):\n    buffer = torch.ones(size, dtype=torch.int32)\n"
            "    buffer[:n] = seq_lens\n    prepare(buffer[:size], seq_lens_sum=int(seq_lens.sum()))\n",
            rows=(7,),
        ),
    ),
)
