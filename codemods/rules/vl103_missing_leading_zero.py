"""Boundaries reach a consumer without their leading zero.

### What it does
Follows boundaries from the cumulative sum to the consumer and reports those that start with the length of the first segment
where the consumer expects 0.

### Why is this bad?
`cu_seqlens` has one entry more than there are segments. Without the zero the first segment is dropped, every other one moves by
one, and rows behind the last boundary stay uninitialized. Nothing crashes.

### Example
```python
cu_seqlens = lens.cumsum(0, dtype=torch.int32)
out = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, longest, longest)
```

### Use instead
```python
cu_seqlens = F.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))
out = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, longest, longest)
```

### Fix safety
Unsafe: the kernel reads other rows, which is the purpose. The zero is put in front where the boundaries are given, so that other
uses of the ends stay as they are; tensors of torch only.

### References
- [torch.nn.attention.varlen](https://docs.pytorch.org/docs/stable/nn.attention.varlen.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import Bounds, bounds_of
from shapecheck.codemods.engine.describe.lengths import lens_of, plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding, Fix, Replace
from shapecheck.codemods.queries.in_scope import module_name, reached_once
from shapecheck.codemods.queries.known_boundaries import measured
from shapecheck.codemods.queries.libraries import library_of
from shapecheck.codemods.queries.slots import BOUNDS, Slot, slots
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_WITH_ZERO = {"fla", "flash_attn", "transformer_engine", "ring_flash_attn", "mamba_ssm", "vllm_flash_attn"}  # packages

_MAXIMA = {"max", "max_q", "max_k"}


def check(view: View) -> Iterator[Finding]:
    """VL103."""
    seen: set[Term] = set()
    for slot in slots(view, BOUNDS):
        bounds = _without_zero(slot.term)
        if bounds is None or bounds.term in seen:
            continue
        if not (_wants_zero(slot) or measured(view, slot.term) or _beside_maximum(view, slot, bounds)):
            continue
        seen.add(bounds.term)
        yield view.finding(
            RULE,
            slot.node,
            f"{slot.taker} expects boundaries that start with 0, but {slot.shown} starts with {_first(slot.term)}: it is a cumulative "
            f"sum{view.line(bounds.term.node)} without a leading zero; put one in front",
            notes=[(bounds.term.node, "cumulative sum without a leading zero")],
            fix=_padded(view, slot),
        )


def _padded(view: View, slot: Slot) -> Fix | None:
    """A zero in front of the argument, where it is given: other uses of the ends stay as they are."""
    torch = module_name(view, "torch")
    bounds = bounds_of(slot.term)
    nodes = [place.node for place in (slot.argument, *slot.others)]
    if torch is None or bounds is None or bounds.zero is not False or bounds.appended or slot.call is None:
        return None
    if any(library_of(view, node) != "torch" for node in nodes) or not reached_once(view, slot.call.node):
        return None
    edits = [
        Replace(view.source.span(node), f"{torch}.nn.functional.pad({view.source.code(node)}, (1, 0))")
        for node in nodes
    ]
    return view.fix("Put a zero in front", *edits)


def _without_zero(term: Term) -> Bounds | None:
    bounds = bounds_of(term)
    if bounds is not None:
        return bounds if bounds.zero is False or _unwritten(plain(term)) else None
    inner = plain(term)
    if inner.op == "item" and inner.args[1].op == "slice":
        low, high, step = inner.args[1].args
        whole = bounds_of(inner.args[0])
        if whole is not None and whole.zeros == 1 and low.is_const(1) and high.is_const(None) and step.is_const(None):
            return whole
    front = _front(inner)
    bounds = None if front is None else bounds_of(front)
    return bounds if bounds is not None and bounds.zero is False else None


def _front(term: Term) -> Term | None:
    """What was stored into the front of a buffer of which the front is taken: `buffer[:n] = ends`, then `buffer[: n + 1]`."""
    stored = None
    while True:
        if term.op == "item" and _from_front(term.args[1]):
            term = plain(term.args[0])
        elif term.op == "store" and _from_front(term.args[1]):
            stored = term = plain(term.args[2])
        else:
            return stored


def _from_front(index: Term) -> bool:
    return (
        index.op == "slice"
        and (index.args[0].is_const(None) or index.args[0].is_const(0))
        and index.args[2].is_const(None)
    )


def _first(term: Term) -> str:
    return "an entry that was never written" if _unwritten(plain(term)) else "the length of the first segment"


def _unwritten(term: Term) -> bool:
    """Whether a value is a buffer of arbitrary numbers that is filled from entry 1 only."""
    if term.op != "store" or term.args[1].op != "slice" or not term.args[1].args[0].is_const(1):
        return False
    base = plain(term.args[0])
    return base.op == "full" and bool(base.args[0].op == "anything")


def _wants_zero(slot: Slot) -> bool:
    """Whether the callee is known, so that its boundaries certainly start with 0."""
    if slot.sink is not None:
        return True
    call = slot.call
    return call is not None and call.imported and not slot.guessed and call.path.partition(".")[0] in _WITH_ZERO


def _beside_maximum(view: View, slot: Slot, bounds: Bounds) -> bool:
    """Whether lengths that were measured here are given with their maximum, as kernels want them; operators of NPUs take ends."""
    if slot.guessed or any("npu" in path for path in view.module.imports.values()):
        return False
    lens = lens_of(bounds.source)
    measured_here = lens is not None and lens.kind in {"parts", "mask"}
    return any(
        any(member.role in _MAXIMA and (measured_here or _is_maximum(member.term, bounds)) for member in bundle.members)
        and any(member.node is slot.node for member in bundle.members)
        for bundle in view.bundles
    )


def _is_maximum(term: Term, bounds: Bounds) -> bool:
    longest = plain(term)
    return longest.op == "max" and len(longest.args) == 1 and plain(longest.args[0]) is plain(bounds.source)


RULE = Rule(
    "VL103",
    "missing-leading-zero",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\nfrom flash_attn import flash_attn_varlen_qkvpacked_func\n\n\ndef f(upload, qkv, parts, n):\n"
        "    lens = [0]\n    for part in parts:\n        lens.append(len(part))\n"
        "    cu_seqlens = upload(lens).cumsum(0, dtype=torch.int32)\n"
        "    return flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, n)\n",
        "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, lens, n):\n"
        "    cu = torch.nn.functional.pad(torch.cumsum(lens, 0, dtype=torch.int32), (1, 0))\n"
        "    return flash_attn_varlen_func(q, k, v, cu, cu, n, n)\n",
        "import torch\n\n\ndef f(ring_attention, x, lens):\n    ends = torch.cumsum(lens, 0, dtype=torch.int32)\n"
        "    return ring_attention(x, cu_seqlens=ends)\n",
        "import numpy as np\n\n\nclass A:\n    def f(self, counts):\n        n = len(counts)\n        self.host[0] = 0\n"
        "        np.cumsum(counts, out=self.host[1 : n + 1])\n"
        "        return {'query_start_loc': self.host[: n + 1], 'max_query_len': counts.max()}\n",
    ),
    invalid=(
        Invalid(
            "import numpy as np\n\n\nclass A:\n    def f(self, counts):\n        n = len(counts)\n"
            "        self.host[:n] = np.cumsum(counts)\n"
            "        return {'query_start_loc': self.host[: n + 1], 'max_query_len': counts.max()}\n",
            rows=(8,),
        ),
        Invalid(
            "import torch\n\n\ndef collate(samples):\n    ids = [s['input_ids'] for s in samples]\n"
            "    lens = [len(s['input_ids']) for s in samples]\n"
            "    return {'input_ids': ids, 'cu_seqlens': torch.tensor(lens).cumsum(0), 'max_seqlen': max(lens)}\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, lens, n):\n"
            "    cu = torch.cumsum(lens, 0, dtype=torch.int32)\n"
            "    return flash_attn_varlen_func(q, k, v, cu, cu, n, n)\n",
            rows=(7,),
            fixed="import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, lens, n):\n"
            "    cu = torch.cumsum(lens, 0, dtype=torch.int32)\n"
            "    return flash_attn_varlen_func(q, k, v, torch.nn.functional.pad(cu, (1, 0)), torch.nn.functional.pad(cu, (1, 0)), n, n)\n",
        ),
        Invalid(
            "from itertools import accumulate\n\nimport torch\nfrom flash_attn import flash_attn_varlen_qkvpacked_func\n\n\n"
            "def f(qkv, lens):\n    cu = torch.tensor([*accumulate(lens, initial=0)], dtype=torch.int32)\n"
            "    return flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens=cu[1:], max_seqlen=max(lens))\n",
            rows=(9,),
        ),
        Invalid(
            "def f(block, x, lens):\n    cu_seqlens = lens.cumsum(0)\n    n = cu_seqlens.diff().max()\n"
            "    return block(x, cu_seqlens=cu_seqlens, max_seqlen=n)\n",
            rows=(4,),
        ),
    ),
    fixable=True,
)
