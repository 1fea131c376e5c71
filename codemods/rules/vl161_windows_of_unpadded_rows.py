"""Boundaries count whole windows of the size before it was padded to whole windows.

### What it does
Finds boundaries made from `n // window` where a value of that size n is padded by `-n % window`.

### Why is this bad?
Padding rounds the number of windows up, the division rounds it down: the last windows have no boundaries.

### Example
```python
x = F.pad(x, (0, 0, 0, -n % window))
cu_seqlens = torch.arange(n // window + 1) * window
```

### Use instead
```python
x = F.pad(x, (0, 0, 0, -n % window))
cu_seqlens = torch.arange(x.shape[0] // window + 1) * window
```

### Fix safety
No fix.

### References
- [torch.nn.functional.pad](https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pad.html)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.everything import values
from shapecheck.codemods.queries.slots import BOUNDS, LENS, slots
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL161."""
    operators = {type(node.op) for node in view.nodes if isinstance(node, ast.BinOp)}
    if not {ast.FloorDiv, ast.Mod} <= operators:
        return
    pads: list[Term] | None = None
    seen: set[Term] = set()
    for slot in slots(view, BOUNDS | LENS):
        inside = set(slot.term.walk())
        for quotient in inside:
            if quotient.op != "FloorDiv" or quotient in seen:
                continue
            size, window = plain(quotient.args[0]), quotient.args[1]
            if size.op != "shape" or any(
                _is_rest(term, size, window) or _is_mod(term, size, window) for term in inside
            ):
                continue
            pads = [term for term in values(view) if term.op == "pad"] if pads is None else pads
            pad = next((one for one in pads if one.args[0] is size.args[0] and _amount(one, size, window)), None)
            if pad is not None and quotient.node is not None:
                seen.update(term for term in inside if term.op == "FloorDiv")
                yield view.finding(
                    RULE,
                    quotient.node,
                    f"the rows are padded to whole windows{view.line(pad.node)}, but {written(quotient.node)} counts the windows of the "
                    "size before, rounded down; divide the padded size",
                    notes=[(pad.node, "padded here")],
                )
                break


def _amount(pad: Term, size: Term, window: Term) -> bool:
    amounts = pad.args[1]
    return amounts.op in {"tuple", "list"} and any(_is_rest(plain(amount), size, window) for amount in amounts.args)


def _is_mod(term: Term, size: Term, window: Term) -> bool:
    return bool(term.op == "Mod" and plain(term.args[0]) is size and term.args[1] is window)


def _is_rest(term: Term, size: Term, window: Term) -> bool:
    """Whether a value is what a size lacks to whole windows: `-n % m`, `(m - n % m) % m`."""
    if term.op != "Mod" or term.args[1] is not window:
        return False
    left = plain(term.args[0])
    if left.op == "USub":
        return plain(left.args[0]) is size
    return bool(left.op == "Sub" and left.args[0] is window and _is_mod(plain(left.args[1]), size, window))


_HEAD = "import torch\nimport torch.nn.functional as F\n\n\n"

RULE = Rule(
    "VL161",
    "windows-of-unpadded-rows",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def f(attn, x, w):\n    n = x.shape[0]\n    x = F.pad(x, (0, 0, 0, -n % w))\n"
        "    cu_seqlens = torch.arange(x.shape[0] // w + 1) * w\n    return attn(x, cu_seqlens=cu_seqlens)\n",
        _HEAD + "def f(attn, x, w):\n    n = x.shape[0]\n    x = F.pad(x, (0, 0, 0, -n % w))\n"
        "    count = n // w + (n % w != 0)\n    cu_seqlens = torch.arange(count + 1) * w\n    return attn(x, cu_seqlens=cu_seqlens)\n",
        _HEAD + "def f(attn, x, w):\n    n = x.shape[0]\n    x = x[: n // w * w]\n"
        "    cu_seqlens = torch.arange(n // w + 1) * w\n    return attn(x, cu_seqlens=cu_seqlens)\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def f(attn, x, w):\n    n = x.shape[0]\n    x = F.pad(x, (0, 0, 0, -n % w))\n"
            "    cu_seqlens = torch.arange(n // w + 1) * w\n    return attn(x, cu_seqlens=cu_seqlens)\n",
            rows=(8,),
        ),
        Invalid(
            _HEAD + "class A:\n    def f(self, grid):\n        h, w, dim = grid.shape\n        s = self.window\n"
            "        x = F.pad(grid, (0, 0, 0, (s - w % s) % s, 0, (s - h % s) % s))\n        count = (h // s) * (w // s)\n"
            "        lens = torch.full((count,), s * s)\n"
            "        return self.attn(self.tiles(x), cu_seqlens=F.pad(lens.cumsum(0), (1, 0)), max_seqlen=s * s)\n",
            rows=(10,),
        ),
    ),
)
