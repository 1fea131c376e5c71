"""Packed metadata from the caller is overwritten before anything reads it.

### What it does

Reports parameters for boundaries, longest lengths or position ids that the function binds to values of its own, in any case and before
the first use: boundaries of a dense batch or a padding mask, one count through the rows.

### Why is this bad?

The caller says where the segments of a packed row are; the function goes on as if each row were one segment. Nothing fails.

### Example

```python
def forward(self, x, cu_seqlens=None):
    batch, length = x.shape[:2]
    cu_seqlens = torch.arange(0, (batch + 1) * length, length)
```

### Use instead

```python
def forward(self, x, cu_seqlens=None):
    batch, length = x.shape[:2]
    if cu_seqlens is None:
        cu_seqlens = torch.arange(0, (batch + 1) * length, length)
```

### Fix safety

No fix: what else is made for the dense batch belongs under the condition too.

### References

- [transformers: packing with position ids](https://huggingface.co/blog/packing-with-FA2)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.events import Binding
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.engine.walk import walk
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.names import origin
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_BOUNDS = {"bounds", "bounds_q", "bounds_k"}
_DENSE = {"dense", "mask"}


def check(view: View) -> Iterator[Finding]:
    """VL122."""
    roles = {name: view.catalogue.role_of(name) for name in view.function.parameters}
    if "positions" not in roles.values() and _BOUNDS.isdisjoint(roles.values()):
        return
    for name, role in roles.items():
        if role != "positions" and role not in _BOUNDS:
            continue
        binding = _first_binding(view, name)
        if binding is None or not _made_anew(view, role, binding.value):
            continue
        if role == "positions" and not _is_packed(view, roles):
            continue
        what = "one count through the rows" if role == "positions" else "boundaries of whole rows"
        yield view.finding(
            RULE,
            binding.node,
            f"the caller's `{name}` is never read: it is overwritten with {what} in any case, so the segments of a packed row are lost; "
            f"make it only where `{name}` is None",
            notes=[(view.function.parameters[name].node, "given by the caller")],
        )


def _first_binding(view: View, name: str) -> Binding | None:
    """The statement that binds a parameter on every way through the function and before anything reads it."""
    first = next((statement for statement in view.function.node.body if _mentions(statement, name)), None)
    match first:
        case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name and not _mentions(value, name):
            return next((binding for binding in view.bindings if binding.node is first), None)
    return None


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id == name for inner in walk(node)) or (
        isinstance(node, ast.FunctionDef | ast.Lambda)
        and any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(node))
    )


def _made_anew(view: View, role: str | None, value: Term) -> bool:
    if role == "positions":
        rows = origin(value)
        return rows.op == "arange" and bool(plain(rows.args[2]).is_const(1))
    bounds = bounds_of(value)
    if bounds is None:
        return False
    if bounds.kind == "lens":
        summed = plain(bounds.source)
        return summed.op == "sum" and len(summed.args) == 2
    return bounds.kind in _DENSE


def _is_packed(view: View, roles: dict[str, str | None]) -> bool:
    """Whether the function knows of packed rows: by its parameters, or by what it hands on."""
    rest = view.function.node.args.kwarg
    return not _BOUNDS.isdisjoint(roles.values()) or (rest is not None and "flash" in rest.arg)


RULE = Rule(
    "VL122",
    "given-metadata-overwritten",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef f(block, x, cu_seqlens=None):\n    if cu_seqlens is None:\n"
        "        cu_seqlens = torch.arange(0, (x.shape[0] + 1) * x.shape[1], x.shape[1])\n    return block(x, cu_seqlens=cu_seqlens)\n",
        "import torch\n\n\ndef f(block, x, position_ids=None, cu_seqlens=None):\n"
        "    position_ids = position_ids if position_ids is not None else torch.arange(x.shape[1])\n"
        "    return block(x, position_ids, cu_seqlens=cu_seqlens)\n",
        "import torch\n\n\ndef f(block, x, position_ids=None):\n    position_ids = torch.arange(x.shape[1])\n"
        "    return block(x, position_ids)\n",
        "import torch\n\n\ndef f(block, x, cu_seqlens):\n    n = int(cu_seqlens.diff().max())\n"
        "    cu_seqlens = torch.arange(0, (x.shape[0] + 1) * n, n)\n    return block(x, cu_seqlens=cu_seqlens)\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef f(block, x, cu_seqlens=None):\n"
            "    cu_seqlens = torch.arange(0, (x.shape[0] + 1) * x.shape[1], x.shape[1])\n    return block(x, cu_seqlens=cu_seqlens)\n",
            rows=(5,),
        ),
        Invalid(
            "import torch\nimport torch.nn.functional as F\n\n\ndef f(block, x, mask, cu_seqlens):\n"
            "    cu_seqlens = F.pad(mask.sum(1).cumsum(0), (1, 0))\n    return block(x[mask], cu_seqlens=cu_seqlens)\n",
            rows=(6,),
        ),
        Invalid(
            "import torch\n\n\nclass Model:\n    def forward(self, x, position_ids=None, **flash_kwargs):\n"
            "        position_ids = torch.arange(x.shape[1]).unsqueeze(0)\n        return self.layers(x, position_ids, **flash_kwargs)\n",
            rows=(6,),
        ),
    ),
)
