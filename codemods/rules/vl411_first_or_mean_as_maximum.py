"""The first, smallest, mean or a wrongly summed length is given as the maximum.

### What it does
Reports a `max_seqlen` that is no maximum of the lengths that the boundaries beside it cumulate: their first item, minimum, mean,
median, number, total divided by their number, the place of the largest, or the maximum of a sum over the batch axis of the mask
whose rows they count.

### Why is this bad?
Every segment longer than this number is cut off by the kernel: its last rows keep whatever was in memory.

### Example
```python
cu_seqlens = F.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))
out = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, lens[0], lens[0])
```

### Use instead
```python
longest = int(lens.max())
out = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, longest, longest)
```

### Fix safety
No fix.

### References
- [torch.nn.attention.varlen](https://docs.pytorch.org/docs/stable/nn.attention.varlen.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.compare import worlds
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.measured import Measured, lengths_in, of_bounds, truth
from shapecheck.codemods.queries.together import groups
from shapecheck.codemods.queries.wording import value
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_STATISTICS = {"min": "smallest", "mean": "mean"}
_CALLS = {
    "median": "the median length",
    "argmax": "the place of the largest length",
    "argmin": "the place of the smallest length",
}

# A branch in which there is no such value.
_ABSENT = {"const", "unbound"}


def check(view: View) -> Iterator[Finding]:
    """VL411."""
    reported: set[Term] = set()
    for group in groups(view):
        for side in ("q", "k"):
            bounds, longest = group.side(side)
            if bounds is None or longest is None or longest.term in reported:
                continue
            for boundaries, maximum in worlds(bounds.term, longest.term):
                if {boundaries.op, maximum.op} & _ABSENT:
                    continue
                found = _statistic(of_bounds(boundaries), plain(boundaries), plain(maximum))
                if found is None or longest.term in reported:
                    continue
                reported.add(longest.term)
                lengths = of_bounds(boundaries)
                yield view.finding(
                    RULE,
                    longest.node,
                    f"the maximum is {found}{view.line(plain(maximum).node)}, so segments may be longer than it says: take "
                    f"the maximum of what the boundaries describe, {lengths.name(view)}{view.line(lengths.term.node)}",
                    notes=[(plain(maximum).node, "no maximum"), (lengths.term.node, "the boundaries describe this")],
                )


def _statistic(segments: Measured, boundaries: Term, maximum: Term) -> str | None:
    """What a maximum is instead, or nothing."""
    if segments.kind == "dense":
        return None
    rounded = (
        maximum.op == "call" and maximum.args[0].rpartition(".")[2] in {"ceil", "floor"} and len(maximum.args) == 2
    )
    if rounded or maximum.op == "elementwise":
        maximum = plain(maximum.args[1])
    match maximum.op:
        case "item" if type(maximum.args[1].value) is int and not _is_sorted(maximum.args[0]):
            largest = plain(maximum.args[0])
            if largest.op == "max" and len(largest.args) == 2 and maximum.args[1].is_const(1):
                return "the place of the largest length" if lengths_in(largest.args[0]) == segments else None
            if lengths_in(maximum.args[0]) == segments:
                return f"one length only, {value(maximum)}"
        case "min" | "mean":
            if lengths_in(maximum.args[0]) == segments:
                return f"the {_STATISTICS[maximum.op]} length"
        case "call" if maximum.args[0].rpartition(".")[2] in _CALLS and len(maximum.args) > 1:
            if lengths_in(maximum.args[1]) == segments:
                return _CALLS[maximum.args[0].rpartition(".")[2]]
        case "len" | "numel" | "shape":
            if _counts(maximum, segments, boundaries) or plain(maximum.args[0]) is boundaries:
                return "the number of segments"
        case "Sub" if _one_segment(maximum) is boundaries:
            return f"the length of one segment only, {value(maximum)}"
        case "FloorDiv":
            if _counts(maximum.args[1], segments, boundaries):
                return "the mean length"
        case "max" if len(maximum.args) == 1:
            summed = plain(maximum.args[0])
            if (
                segments.kind == "mask"
                and summed.op == "sum"
                and len(summed.args) == 2
                and summed.args[1].is_const(0)
                and truth(summed.args[0]) is segments.term
            ):
                return "taken over a sum along the batch axis"
    return None


def _one_segment(term: Term) -> Term | None:
    """`b` if the term is `b[i + 1] - b[i]` with numbers."""
    end, start = plain(term.args[0]), plain(term.args[1])
    if (
        end.op != "item"
        or start.op != "item"
        or type(end.args[1].value) is not int
        or type(start.args[1].value) is not int
    ):
        return None
    return plain(end.args[0]) if end.args[0] is start.args[0] and end.args[1].value - start.args[1].value == 1 else None


def _is_sorted(term: Term) -> bool:
    return any(part.op == "sorted" for part in term.walk())


def _counts(term: Term, segments: Measured, boundaries: Term) -> bool:
    """Whether a value is the number of segments."""
    term = plain(term)
    if term.op == "Sub" and term.args[1].is_const(1):
        counted = plain(term.args[0])
        return counted.op in {"numel", "len", "shape"} and plain(counted.args[0]) is boundaries
    return term.op in {"numel", "len", "shape"} and lengths_in(term.args[0]) == segments and segments.kind == "lens"


_HEAD = "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\n"

RULE = Rule(
    "VL411",
    "first-or-mean-as-maximum",
    "stable",
    __doc__,
    check,
    valid=(
        # The caller passes one segment at a time.
        _HEAD + "def f(q, k, v, cu_seqlens):\n"
        "    n = int(cu_seqlens[1] - cu_seqlens[0])\n"
        "    cu = cu_seqlens[:2]\n"
        "    return flash_attn_varlen_func(q, k, v, cu, cu, n, n)\n",
        _HEAD + "def f(q, k, v, lens):\n"
        "    lens = sorted(lens, reverse=True)\n"
        "    cu = torch.tensor([0, *lens], dtype=torch.int32).cumsum(0, dtype=torch.int32)\n"
        "    return flash_attn_varlen_func(q, k, v, cu, cu, lens[0], lens[0])\n",
        _HEAD + "def f(q, k, v):\n"
        "    batch, n = q.shape[:2]\n"
        "    cu = torch.arange(0, (batch + 1) * n, n, dtype=torch.int32)\n"
        "    longest = q.numel() // (cu.numel() - 1)\n"
        "    return flash_attn_varlen_func(q, k, v, cu, cu, longest, longest)\n",
        _HEAD + "def f(q, k, v, meta, states, packed):\n"
        "    if packed:\n"
        "        cu, states = meta.cu_seqlens, meta.states\n"
        "    return flash_attn_varlen_func(q, k, v, cu, cu, states.size(-1), states.size(-1))\n",
        _HEAD + "def f(q, k, v, mask):\n"
        "    cu = torch.nn.functional.pad(mask.sum(1).cumsum(0, dtype=torch.int32), (1, 0))\n"
        "    longest = int(mask.sum(-1).max())\n"
        "    return flash_attn_varlen_func(q, k, v, cu, cu, longest, longest)\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def f(q, k, v, cu_seqlens):\n"
            "    n = int(cu_seqlens[1] - cu_seqlens[0])\n"
            "    return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, n, n)\n",
            rows=(7,),
        ),
        Invalid(
            _HEAD + "def f(q, k, v, lens):\n"
            "    cu = torch.nn.functional.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))\n"
            "    longest = int(lens.float().mean())\n"
            "    return flash_attn_varlen_func(q, k, v, cu, cu, longest, longest)\n",
            rows=(8,),
        ),
        Invalid(
            "import torch\n\n\ndef f(lens, batch):\n"
            "    batch['cu_seqlens'] = torch.tensor([0] + lens).cumsum(0)\n"
            "    batch['max_seqlen'] = lens[0]\n",
            rows=(6,),
        ),
        Invalid(
            "import torch\n\n\ndef f(mask):\n"
            "    valid = mask.bool()\n"
            "    cu_seqlens = torch.nn.functional.pad(valid.sum(dim=1).cumsum(0), (1, 0))\n"
            "    max_seqlen = int(valid.sum(dim=0).max())\n"
            "    return cu_seqlens, max_seqlen\n",
            rows=(8,),
        ),
    ),
)
