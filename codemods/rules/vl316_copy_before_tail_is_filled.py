"""Boundaries are copied to the device before their tail is filled on the host.

### What it does
Reports `buffer.copy_to_gpu()` and `device.copy_(host)` that are followed by a store into the tail of the host array,
with no other copy after it.

### Why is this bad?
The device keeps the tail of the step before. Padded requests read stale boundaries.

### Example
```python
starts.np[1 : n + 1] = ends
starts.copy_to_gpu()
starts.np[n + 1 :] = ends[-1]
```

### Use instead
```python
starts.np[1 : n + 1] = ends
starts.np[n + 1 :] = ends[-1]
starts.copy_to_gpu()
```

### Fix safety
No fix: statements in between may need the copy.

### References
- [torch.Tensor.copy_](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.copy_.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.events import Binding, Call
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_HOST = {"np", "cpu", "host"}


def check(view: View) -> Iterator[Finding]:
    """VL316."""
    for call in view.calls:
        if call.name not in {"copy_to_gpu", "copy_"} or any(cond.op == "loop" for cond, _ in call.context):
            continue
        late = next(
            (binding for binding in view.bindings if binding.order > call.order and _fills_tail(binding, call)), None
        )
        if late is None or any(again.order > late.order and _copies_same(again, call) for again in view.calls):
            continue
        yield view.finding(
            RULE,
            late.node,
            f"the tail is filled on the host after the copy to the device{view.line(call.node)}, so the device keeps "
            "what the tail held before; copy after the last store",
            notes=[(call.node, "copied to the device here")],
        )


def _fills_tail(binding: Binding, call: Call) -> bool:
    value = binding.value
    if value.op != "store" or value.args[1].op != "slice" or binding.context != call.context:
        return False
    low, high, _ = value.args[1].args
    if low.op == "const" or not high.is_const(None):
        return False
    base: Term = value
    while base.op == "store":
        base = base.args[0]
    if call.name == "copy_to_gpu":
        return not call.args and base.op == "attr" and base.args[1] in _HOST and base.args[0] is call.receiver
    copied = call.args[0] if call.args else None
    while copied is not None and copied.op == "store":
        copied = copied.args[0]
    return base is copied and base.op == "attr"


def _copies_same(again: Call, call: Call) -> bool:
    return again.name == call.name and again.receiver is call.receiver


RULE = Rule(
    "VL316",
    "copy-before-tail-is-filled",
    "stable",
    __doc__,
    check,
    valid=(
        "class A:\n    def fill(self, ends, n):\n        self.query_start_loc.np[1 : n + 1] = ends\n"
        "        self.query_start_loc.np[n + 1 :] = ends[-1]\n        self.query_start_loc.copy_to_gpu()\n",
        "class A:\n    def fill(self, ends, n):\n        self.query_start_loc.np[1 : n + 1] = ends\n"
        "        self.query_start_loc.copy_to_gpu()\n        self.query_start_loc.np[n + 1 :] = ends[-1]\n"
        "        self.query_start_loc.copy_to_gpu()\n",
    ),
    invalid=(
        Invalid(
            "class A:\n    def fill(self, ends, n):\n        starts = self.query_start_loc.np\n"
            "        starts[1 : n + 1] = ends\n"
            "        self.query_start_loc.copy_to_gpu()\n        starts[n + 1 :] = ends[-1]\n",
            rows=(6,),
        ),
        Invalid(
            "class A:\n    def fill(self, seq_lens, n):\n        self.seq_lens_host[:n] = seq_lens\n"
            "        self.seq_lens.copy_(self.seq_lens_host)\n        self.seq_lens_host[n:] = 1\n",
            rows=(5,),
        ),
    ),
)
