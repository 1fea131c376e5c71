"""Boundaries with a leading zero are given where an operator wants the ends of the segments.

### What it does
Reports boundaries that start with 0 in the `actual_seq_qlen` and `actual_seq_kvlen` arguments (and their kin) of NPU operators in the
layout TND.

### Why is this bad?
These operators take one cumulative end for each segment, without the zero. With it, the first segment is empty and every
segment's number moves by one.

### Example
```python
cu_seqlens = F.pad(lens.cumsum(0), (1, 0)).tolist()
out = torch_npu.npu_fusion_attention(q, k, v, heads, input_layout="TND", actual_seq_qlen=cu_seqlens, actual_seq_kvlen=cu_seqlens)
```

### Use instead
```python
ends = lens.cumsum(0).tolist()
out = torch_npu.npu_fusion_attention(q, k, v, heads, input_layout="TND", actual_seq_qlen=ends, actual_seq_kvlen=ends)
```

### Fix safety
Unsafe: what the operator reads changes, which is the purpose.

### References
- [torch_npu.npu_fusion_attention](https://www.hiascend.com/document)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding, Replace
from shapecheck.codemods.queries.callee import optional
from shapecheck.codemods.queries.known_boundaries import measured, passed_as_boundaries
from shapecheck.codemods.queries.slots import ENDS, slots
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL105."""
    for slot in slots(view, ENDS):
        if slot.call is None or not slot.call.name.startswith("npu_"):
            continue
        layout = slot.call.kwargs.get("input_layout")
        if (layout is not None and not layout.is_const("TND")) or not _has_zero(view, slot.term):
            continue
        places = (slot.argument, *slot.others)
        edits = [
            Replace(view.source.span(place.node), f"{view.source.code(place.node)}[1:]")
            for place in places
            if isinstance(place.node, ast.Name | ast.Attribute) and not _may_be_none(view, slot.term)
        ]
        yield view.finding(
            RULE,
            slot.node,
            f"{slot.taker} expects the end of each segment, but {slot.shown} holds boundaries{view.line(slot.term.node)} that start "
            "with 0, so the first segment is empty; drop the zero with `[1:]`",
            notes=[(slot.term.node, "boundaries with a leading zero")],
            fix=view.fix("Drop the leading zero", *edits) if len(edits) == len(places) else None,
        )


def _may_be_none(view: View, term: Term) -> bool:
    return term.op == "parameter" and term.args[0] in optional(view.function.node)


def _has_zero(view: View, term: Term) -> bool:
    """Whether boundaries start with 0: they were built so, or the function takes them so elsewhere."""
    bounds = bounds_of(term)
    if bounds is not None:
        return bool(bounds.zero)
    return measured(view, term) or passed_as_boundaries(view, term)


RULE = Rule(
    "VL105",
    "leading-zero-in-ends",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch_npu\n\n\ndef f(q, k, v, lens, heads):\n    ends = lens.cumsum(0).tolist()\n"
        '    return torch_npu.npu_fusion_attention(q, k, v, heads, input_layout="TND", actual_seq_qlen=ends, actual_seq_kvlen=ends)\n',
        "import torch\nimport torch_npu\n\n\ndef f(q, k, v, lens, heads):\n"
        "    cu = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n    ends = cu[1:].tolist()\n"
        '    return torch_npu.npu_fusion_attention(q, k, v, heads, input_layout="TND", actual_seq_qlen=ends, actual_seq_kvlen=ends)\n',
    ),
    invalid=(
        Invalid(
            "import torch\nimport torch_npu\n\n\ndef f(q, k, v, lens, heads):\n"
            "    cu = torch.nn.functional.pad(lens.cumsum(0), (1, 0)).tolist()\n"
            '    return torch_npu.npu_fusion_attention(q, k, v, heads, input_layout="TND", actual_seq_qlen=cu, actual_seq_kvlen=cu)\n',
            rows=(7,),
            fixed="import torch\nimport torch_npu\n\n\ndef f(q, k, v, lens, heads):\n"
            "    cu = torch.nn.functional.pad(lens.cumsum(0), (1, 0)).tolist()\n"
            "    return torch_npu.npu_fusion_attention("
            'q, k, v, heads, input_layout="TND", actual_seq_qlen=cu[1:], actual_seq_kvlen=cu[1:])\n',
        ),
        Invalid(
            "import torch_npu\nfrom itertools import accumulate\n\n\ndef f(q, k, v, lens, heads):\n"
            '    return torch_npu.npu_fusion_attention(\n        q, k, v, heads, input_layout="TND",\n'
            "        actual_seq_qlen=[0, *accumulate(lens)],\n        actual_seq_kvlen=list(accumulate(lens)),\n    )\n",
            rows=(8,),
        ),
        Invalid(
            "import torch_npu\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, cu, n, heads, npu):\n"
            "    if not npu:\n        return flash_attn_varlen_func(q, k, v, cu, cu, n, n)\n    ends = cu.tolist()\n"
            '    return torch_npu.npu_fusion_attention(q, k, v, heads, input_layout="TND", actual_seq_qlen=ends, actual_seq_kvlen=ends)\n',
            rows=(9,),
        ),
    ),
    fixable=True,
)
