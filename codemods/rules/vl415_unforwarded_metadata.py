"""Packed metadata that a function takes or computes is not handed to the layer that needs it.

### What it does
Reports boundaries, maxima, tags or packed parameters that are an argument or a local variable of a function, are never read in it,
and are a parameter of the same name of a function or layer of the same file that it calls without them, or a keyword of a packed
kernel (a convolution, a scan, a linear attention) that it calls without them.

### Why is this bad?
The layer falls back to its default, usually one sequence over the whole row: packed samples attend to each other.

### Example
```python
class Block(nn.Module):
    def forward(self, x, cu_seqlens=None):
        return x + self.attention(x)
```

### Use instead
```python
class Block(nn.Module):
    def forward(self, x, cu_seqlens=None):
        return x + self.attention(x, cu_seqlens=cu_seqlens)
```

### Fix safety
Unsafe: the computed values change, which is the purpose.

### References
- [flash-attention: variable-length interface](https://github.com/Dao-AILab/flash-attention)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.findings import AddKeyword, Finding
from shapecheck.codemods.queries.callee import definition_of, parameters_of, takes_keyword
from shapecheck.codemods.queries.in_scope import reads, value_at
from shapecheck.codemods.queries.takers import kernel_of, takes
from shapecheck.codemods.queries.unread import kind_by_name, unread
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL415."""
    lost = unread(view)
    for call in view.calls:
        lacking = [name for name in lost if _lacks(view, call, name)]
        if not lacking:
            continue
        names = " and ".join(f"`{name}`" for name in lacking)
        span = view.source.span(call.node)
        yield view.finding(
            RULE,
            call.node,
            f"{names} (line {lost[lacking[0]].lineno}) {'are' if len(lacking) > 1 else 'is'} never used, but `{call.path}` takes "  # type: ignore[attr-defined]
            f"{'them' if len(lacking) > 1 else 'it'} and is called without: pass {names} on",
            notes=[(lost[name], "never used") for name in lacking],
            fix=view.fix(f"Pass {names}", *(AddKeyword(span, _keyword(view, call, name), name) for name in lacking))
            if all(_can_be_passed(view, call, name) for name in lacking)
            else None,
        )
        lost = {name: made for name, made in lost.items() if name not in lacking}


def _lacks(view: View, call: Call, name: str) -> bool:
    if name in call.kwargs or "**" in call.kwargs or None in call.args:
        return False
    kernel = kernel_of(view, call)
    if kernel is not None:
        kind = kind_by_name(view, name)
        given = [role for position, role in kernel.positions.items() if position < len(call.args)]
        given += [kernel.keywords.get(keyword) or kind_by_name(view, keyword) for keyword in call.kwargs]
        return takes(kernel, kind) is not None and kind not in given
    callee = definition_of(view.module, call)
    if callee is None or callee is view.function.node:
        return False
    parameters = parameters_of(callee)
    kind = kind_by_name(view, name)
    if any(kind_by_name(view, other) == kind for other in (*call.kwargs, *parameters[: len(call.args)])):
        return False  # `cu_seqlens_cpu` is a copy of `cu_seqlens`
    return name in parameters and parameters.index(name) >= len(call.args)


def _can_be_passed(view: View, call: Call, name: str) -> bool:
    """Whether the name is bound whenever the call is reached, and the callee takes the keyword."""
    value = value_at(view, call.node, name)
    if value is None or not reads(view, call.node, ast.Name(name), value):
        return False
    callee = None if kernel_of(view, call) else definition_of(view.module, call)
    return callee is None or takes_keyword(callee, name)


def _keyword(view: View, call: Call, name: str) -> str:
    kernel = kernel_of(view, call)
    return (kernel and takes(kernel, kind_by_name(view, name))) or name


RULE = Rule(
    "VL415",
    "unforwarded-metadata",
    "stable",
    __doc__,
    check,
    valid=(
        "class Block:\n"
        "    def attention(self, x, cu_seqlens=None):\n        return x\n\n"
        "    def forward(self, x, cu_seqlens=None):\n        return self.attention(x, cu_seqlens)\n",
        "def check(x, cu_seqlens=None, cu_seqlens_cpu=None):\n    return x\n\n\n"
        "def f(x, cu_seqlens=None, cu_seqlens_cpu=None):\n    return check(x, cu_seqlens=cu_seqlens)\n",
        "from fla.ops.utils import prepare_chunk_indices\n\n\ndef f(cu_seqlens, cu_seqlens_cpu=None):\n"
        "    return prepare_chunk_indices(cu_seqlens, 64)\n",
        "from causal_conv1d import causal_conv1d_fn\n\n\ndef mix(x, weight, seq_idx=None):\n"
        "    del seq_idx  # one sequence per row\n"
        "    return causal_conv1d_fn(x, weight, None)\n",
        "class Block:\n"
        "    def mlp(self, x):\n        return x\n\n"
        "    def forward(self, x, cu_seqlens=None):\n        return self.mlp(x)\n",
    ),
    invalid=(
        Invalid(
            "from causal_conv1d import causal_conv1d_fn\n\n\ndef mix(x, weight, seq_idx=None):\n"
            "    return causal_conv1d_fn(x, weight, None)\n",
            rows=(5,),
            fixed="from causal_conv1d import causal_conv1d_fn\n\n\ndef mix(x, weight, seq_idx=None):\n"
            "    return causal_conv1d_fn(x, weight, None, seq_idx=seq_idx)\n",
        ),
        Invalid(
            "from fla.ops.gla import chunk_gla\n\n\ndef naive(q, k, v):\n    return q\n\n\n"
            "class Mixer:\n    def __init__(self):\n        self.scan = chunk_gla or naive\n\n"
            "    def forward(self, q, k, v, cu_seqlens=None):\n        return self.scan(q, k, v)\n",
            rows=(13,),
            fixed="from fla.ops.gla import chunk_gla\n\n\ndef naive(q, k, v):\n    return q\n\n\n"
            "class Mixer:\n    def __init__(self):\n        self.scan = chunk_gla or naive\n\n"
            "    def forward(self, q, k, v, cu_seqlens=None):\n        return self.scan(q, k, v, cu_seqlens=cu_seqlens)\n",
        ),
        Invalid(
            "class Attention:\n"
            "    def forward(self, x, cu_seqlens=None):\n        return x\n\n\n"
            "class Block:\n"
            "    def __init__(self):\n        self.attention = Attention()\n\n"
            "    def forward(self, x, cu_seqlens=None):\n        return x + self.attention(x)\n",
            rows=(11,),
            fixed="class Attention:\n"
            "    def forward(self, x, cu_seqlens=None):\n        return x\n\n\n"
            "class Block:\n"
            "    def __init__(self):\n        self.attention = Attention()\n\n"
            "    def forward(self, x, cu_seqlens=None):\n        return x + self.attention(x, cu_seqlens=cu_seqlens)\n",
        ),
        Invalid(
            "import torch\n\n\ndef attend(x, cu_seqlens=None):\n    return x\n\n\n"
            "def f(x, seq_lens):\n"
            "    cu_seqlens = torch.nn.functional.pad(seq_lens.cumsum(0), (1, 0))\n"
            "    return attend(x)\n",
            rows=(10,),
            fixed="import torch\n\n\ndef attend(x, cu_seqlens=None):\n    return x\n\n\n"
            "def f(x, seq_lens):\n"
            "    cu_seqlens = torch.nn.functional.pad(seq_lens.cumsum(0), (1, 0))\n"
            "    return attend(x, cu_seqlens=cu_seqlens)\n",
        ),
    ),
    fixable=True,
)
