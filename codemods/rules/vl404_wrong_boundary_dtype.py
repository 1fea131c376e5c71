"""Boundaries of a type that the kernel does not take.

### What it does
Follows the integer type of boundaries to the kernels that read them as int32. `cumsum` without `dtype`, `arange`, `tensor` and
`concatenate` with a list all give int64; `zeros` without `dtype` gives floats.

### Why is this bad?
Kernels that check raise an error on the first call; kernels that do not check read each boundary as two.

### Example
```python
cu_seqlens = F.pad(lens.cumsum(0), (1, 0))
out = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, longest, longest)
```

### Use instead
```python
cu_seqlens = F.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))
out = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, longest, longest)
```

### Fix safety
Safe: the argument is cast; with another type the call fails.

### References
- [flash-attention: variable-length interface](https://github.com/Dao-AILab/flash-attention)
- [torch.cumsum](https://docs.pytorch.org/docs/stable/generated/torch.cumsum.html)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.compare import worlds
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding, Fix, Replace
from shapecheck.codemods.queries.dtypes import dtype_of
from shapecheck.codemods.queries.in_scope import module_name, reached_once
from shapecheck.codemods.queries.slots import BOUNDS, Slot, slots
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_CASTABLE = ast.Name | ast.Attribute | ast.Call | ast.Subscript


def check(view: View) -> Iterator[Finding]:
    """VL404."""
    for slot in slots(view, BOUNDS):
        if slot.sink is None or slot.sink.dtype is None:
            continue
        given = _type_that_reaches(slot.term)
        if given is None or given == slot.sink.dtype:
            continue
        yield view.finding(
            RULE,
            slot.node,
            f"{slot.taker} takes {slot.sink.dtype} boundaries, but {slot.shown} is {given}{view.line(slot.term.node)}; "
            f"build them with `dtype=torch.{slot.sink.dtype}` or cast them",
            notes=[(slot.term.node, f"{given} boundaries")],
            fix=_cast(view, slot, slot.sink.dtype),
        )


def _type_that_reaches(term: Term) -> str | None:
    """The type of the boundaries, or of those of one branch where they differ; None where all may be right."""
    if any(inner.op == "phi" and _asks_type(inner.args[0]) for inner in term.walk()):
        return None
    found = [dtype_of(world) for (world,) in worlds(term)]
    return next((kind for kind in found if kind is not None and kind != "int32"), None)


def _asks_type(condition: Term) -> bool:
    return any(inner.op == "attr" and inner.args[1] == "dtype" for inner in condition.walk())


def _cast(view: View, slot: Slot, dtype: str) -> Fix | None:
    nodes = [place.node for place in (slot.argument, *slot.others)]
    torch = module_name(view, "torch")
    if torch is None or not all(isinstance(node, _CASTABLE) and _is_argument(view, slot, node) for node in nodes):
        return None
    if not all(_is_tensor(view, world) for (world,) in worlds(slot.term)):
        return None
    edits = [Replace(view.source.span(node), f"{view.source.code(node)}.to({torch}.{dtype})") for node in nodes]
    return view.fix(f"Cast to {dtype}", *edits, safe=True)


def _is_argument(view: View, slot: Slot, node: ast.AST) -> bool:
    """Whether a value is written in the call itself: an item of a dict may go elsewhere, too."""
    if slot.call is None or not reached_once(view, slot.call.node):
        return False
    return node in {*slot.call.node.args, *(given.value for given in slot.call.node.keywords)}


def _is_tensor(view: View, term: Term) -> bool:
    """Whether a value has `.to`: None, a list and an array of numpy do not."""
    if not isinstance(term.node, ast.Call):
        return term.op != "const"
    root, _, _ = (callee := ast.unparse(term.node.func)).partition(".")
    library = view.module.imports.get(root, "").partition(".")[0]
    return library != "numpy" and callee.rpartition(".")[2] not in {"tolist", "numpy", "astype", "accumulate"}


RULE = Rule(
    "VL404",
    "wrong-boundary-dtype",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, lens, n):\n"
        "    cu = torch.nn.functional.pad(lens.cumsum(0), (1, 0)).to(q.device, torch.int32)\n"
        "    return flash_attn_varlen_func(q, k, v, cu, cu, n, n)\n",
        "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, lens, n):\n"
        "    cu = torch.zeros(len(lens) + 1, dtype=torch.int32)\n    cu[1:] = torch.cumsum(lens, 0)\n"
        "    return flash_attn_varlen_func(q, k, v, cu, cu, n, n)\n",
        "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, lens, n):\n"
        "    cu = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
        "    if cu.dtype != torch.int32:\n        cu = cu.int()\n"
        "    return flash_attn_varlen_func(q, k, v, cu, cu, n, n)\n",
        "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, lens, like, n):\n"
        "    cu = torch.nn.functional.pad(lens.cumsum(0), (1, 0)).to(like)\n"
        "    return flash_attn_varlen_func(q, k, v, cu, cu, n, n)\n",
    ),
    invalid=(
        Invalid(
            "import numpy as np\nimport torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, lens, n):\n"
            "    cu = torch.from_numpy(np.concatenate(([0], np.cumsum(lens)))).to(q.device)\n"
            "    return flash_attn_varlen_func(q, k, v, cu, cu, n, n)\n",
            rows=(8,),
            fixed="import numpy as np\nimport torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, lens, n):\n"
            "    cu = torch.from_numpy(np.concatenate(([0], np.cumsum(lens)))).to(q.device)\n"
            "    return flash_attn_varlen_func(q, k, v, cu.to(torch.int32), cu.to(torch.int32), n, n)\n",
        ),
        Invalid(
            "import torch\nfrom flash_attn import flash_attn_varlen_qkvpacked_func as attend\n\n\ndef f(qkv, lens, n):\n"
            "    zero = torch.tensor([0])\n    cu = torch.cat([zero, lens.cumsum(0, dtype=torch.int32)])\n"
            "    return attend(qkv, cu_seqlens=cu, max_seqlen=n)\n",
            rows=(8,),
        ),
        Invalid(
            "import torch\nfrom flash_attn import flash_attn_varlen_qkvpacked_func\n\n\ndef f(qkv, batch, length):\n"
            "    cu = torch.arange(0, (batch + 1) * length, length, device=qkv.device)\n"
            "    return flash_attn_varlen_qkvpacked_func(qkv, cu, length)\n",
            rows=(7,),
        ),
    ),
    fixable=True,
)
