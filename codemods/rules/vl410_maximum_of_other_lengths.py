"""The maximum was taken over other lengths than those of the boundaries.

### What it does
Compares what the boundaries of a call, batch or metadata object cumulate with what the maximum beside them was taken over. Reports
a maximum that is certainly too small for some segments: it belongs to the other side of a cross attention, to windows, to the lengths
before rows were added or rounded up, or it was divided and the boundaries were not.

### Why is this bad?
Kernels launch one block of work per tile up to `max_seqlen`. Rows of a segment behind it are never visited: their output is
uninitialized, or keys are ignored. Nothing crashes. A maximum that is too large only costs time.

### Example
```python
longest = int(q_lens.max())
out = flash_attn_varlen_func(q, k, v, cu_q, cu_k, longest, longest)
```

### Use instead
```python
out = flash_attn_varlen_func(q, k, v, cu_q, cu_k, int(q_lens.max()), int(k_lens.max()))
```

### Fix safety
No fix: the lengths may be at hand under several names.

### References
- [torch.nn.attention.varlen](https://docs.pytorch.org/docs/stable/nn.attention.varlen.html)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.compare import worlds
from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.callee import definition_of
from shapecheck.codemods.queries.grown import grown, never_longer
from shapecheck.codemods.queries.measured import Measured, of_bounds, of_max
from shapecheck.codemods.queries.together import Group, groups
from shapecheck.codemods.queries.uncumulated import uncumulated
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.queries.words import side_words
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View


def check(view: View) -> Iterator[Finding]:
    """VL410."""
    reported: set[tuple[Measured, Measured]] = set()
    for group in groups(view):
        sides = {name: group.side(name) for name in ("q", "k")}
        if _layout_on_one_side(group):
            continue
        given = [argument.term for side in sides.values() for argument in side if argument is not None]
        if len(given) < 2 or any(_found_in_helper(view, *side) for side in sides.values()):
            continue
        for resolved in worlds(*given):
            terms = dict(zip(given, resolved, strict=True))
            if _crosswise(*(None if at is None else terms[at.term] for side in sides.values() for at in side)):
                continue
            for name, other in (("k", "q"), ("q", "k")):
                bounds, longest = sides[name]
                if bounds is None or longest is None or terms[bounds.term].op in {"const", "unbound"}:
                    continue
                if uncumulated(terms[bounds.term], view) is not None:
                    continue  # VL101's subject
                opposite = sides[other][0]
                against = None if opposite is None or _may_look_back(group, name) else terms[opposite.term]
                found = _fault(terms[bounds.term], terms[longest.term], against)
                if found is None or found in reported:
                    continue
                reported.add(found)
                segments, measured = found
                yield view.finding(
                    RULE,
                    longest.node,
                    f"{_called(longest, 'the maximum')} is taken over {measured.name(view)}{view.line(measured.term.node)}, but "
                    f"{_called(bounds, 'the boundaries')} beside it describe {segments.name(view)}"
                    f"{view.line(segments.term.node)}, where segments may be longer: take the maximum of those",
                    notes=[
                        (measured.term.node, "the maximum is taken over this"),
                        (segments.term.node, "the boundaries describe this"),
                    ],
                )


def _called(argument: Argument, otherwise: str) -> str:
    text = written(argument.node)
    return otherwise if text == "a value" else text


def _found_in_helper(view: View, bounds: Argument | None, longest: Argument | None) -> bool:
    """Whether a function of this file returns both, and the fault is reported there."""
    if (
        bounds is None
        or longest is None
        or not isinstance(bounds.node, ast.Name)
        or not isinstance(longest.node, ast.Name)
    ):
        return False
    makers = [view.binding_of(node.id) for node in (bounds.node, longest.node)]
    if makers[0] is None or makers[1] is None or makers[0].node is not makers[1].node:
        return False
    made = getattr(makers[0].node, "value", None)
    call = next((call for call in view.calls if call.node is made), None)
    helper = None if call is None else definition_of(view.module, call)
    return any(
        other is not view and other.function.node is helper and next(check(other), None) is not None
        for other in view.siblings
    )


def _layout_on_one_side(group: Group) -> bool:
    """Whether one side alone gets its padded boundaries twice: VL421's subject."""
    sides = [(group.roles.get(f"bounds_{name}"), group.roles.get(f"padded_{name}")) for name in ("q", "k")]
    same = [bounds is not None and padded is not None and bounds.term is padded.term for bounds, padded in sides]
    return same[0] != same[1]


def _crosswise(bounds_q: Term | None, max_q: Term | None, bounds_k: Term | None, max_k: Term | None) -> bool:
    """Whether boundaries and maxima are paired crosswise: VL412's subject."""
    if bounds_q is None or max_q is None or bounds_k is None or max_k is None:
        return False
    of_q, of_k = of_bounds(bounds_q), of_bounds(bounds_k)
    return of_q != of_k and of_max(max_q) == of_k and of_max(max_k) == of_q


def _may_look_back(group: Group, side: str) -> bool:
    """With causal attention keys are the queries and what came before: their maximum is an upper bound for the queries."""
    if side == "k":
        return False
    if group.call is None:
        return True
    return not {"causal", "is_causal", "block_table", "window_size"}.isdisjoint(group.call.kwargs)


def _fault(bounds: Term, longest: Term, opposite: Term | None) -> tuple[Measured, Measured] | None:
    segments, measured = of_bounds(bounds), of_max(longest)
    if measured is None:
        divided = plain(longest)
        inner = of_max(divided.args[0]) if divided.op == "FloorDiv" else None
        exact = bounds_of(bounds)
        if (
            inner == segments
            and exact is not None
            and exact.divisor is None
            and segments.kind != "dense"
            and segments.lens.op != "FloorDiv"  # divided a second time: VL502's subject
        ):
            return segments, Measured("lens", divided, divided)
        return None
    if measured == segments:
        return None
    if grown(segments.lens, measured.lens) or _said_longer(segments, measured):
        return segments, measured
    if never_longer(segments.lens, measured.lens):
        return None
    if opposite is not None and of_bounds(opposite) == measured and not _related(segments.term, measured.term):
        return segments, measured
    return None


def _said_longer(segments: Measured, measured: Measured) -> bool:
    """Whether names say which is longer: windows divide the rest, and a padded layout the valid rows of the same name."""
    of_segments, of_measured = _words(segments), _words(measured)
    if "window" in of_measured:
        return "window" not in of_segments
    return of_segments - of_measured == {"padded"} and not of_measured - of_segments


def _words(measured: Measured) -> set[str]:
    return side_words(measured.term.node, measured.term) if measured.term.node is not None else set()


def _related(a: Term, b: Term) -> bool:
    """Whether one of two values was made from the other: which is larger is then unknown."""
    return a in set(b.walk()) or b in set(a.walk())


_HEAD = "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\n"

RULE = Rule(
    "VL410",
    "maximum-of-other-lengths",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def f(q, k, v, q_lens, k_lens):\n"
        "    cu_q = torch.nn.functional.pad(q_lens.cumsum(0, dtype=torch.int32), (1, 0))\n"
        "    cu_k = torch.nn.functional.pad(k_lens.cumsum(0, dtype=torch.int32), (1, 0))\n"
        "    n = int(torch.maximum(q_lens.max(), k_lens.max()))\n"
        "    return flash_attn_varlen_func(q, k, v, cu_q, cu_k, n, n)\n",
        _HEAD + "def f(q, k, v, lens, past):\n"
        "    total = lens + past\n"
        "    cu_q = torch.nn.functional.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))\n"
        "    cu_k = torch.nn.functional.pad(total.cumsum(0, dtype=torch.int32), (1, 0))\n"
        "    n = int(total.max())\n"
        "    return flash_attn_varlen_func(q, k, v, cu_q, cu_k, n, n, causal=True)\n",
        # Each query segment holds the keys' text and more.
        _HEAD + "def f(samples):\n    rows, q_lens, context, k_lens = [], [], [], []\n    for s in samples:\n"
        "        rows.append(torch.cat([s['text'], s['image']]))\n        q_lens.append(len(s['image']) + len(s['text']))\n"
        "        context.append(s['text'])\n        k_lens.append(len(s['text']))\n"
        "    cu_q = torch.nn.functional.pad(torch.tensor(q_lens).cumsum(0).int(), (1, 0))\n"
        "    cu_k = torch.nn.functional.pad(torch.tensor(k_lens).cumsum(0).int(), (1, 0))\n"
        "    q, k, n = torch.cat(rows), torch.cat(context), max(q_lens)\n"
        "    return flash_attn_varlen_func(q, k, k, cu_q, cu_k, n, n)\n",
        # Keys are capped.
        _HEAD + "def f(docs, limit):\n    q, k = torch.cat(docs), torch.cat([d[:limit] for d in docs])\n"
        "    q_lens, k_lens = [len(d) for d in docs], [min(len(d), limit) for d in docs]\n"
        "    cu_q = torch.nn.functional.pad(torch.tensor(q_lens).cumsum(0).int(), (1, 0))\n"
        "    cu_k = torch.nn.functional.pad(torch.tensor(k_lens).cumsum(0).int(), (1, 0))\n"
        "    return flash_attn_varlen_func(q, k, k, cu_q, cu_k, max(q_lens), max(q_lens))\n",
        "import torch\n\n\ndef f(lens, align):\n"
        "    layout = (lens + align - 1) // align * align\n"
        "    cu_seqlens = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
        "    return {'cu_seqlens': cu_seqlens, 'max_seqlen': int(layout.max())}\n",
        "import torch\n\n\ndef f(self, x, grid):\n"
        "    t, h, w = grid.unbind(-1)\n"
        "    cu_seqlens = torch.repeat_interleave(h * w, t).cumsum(0)\n"
        "    return self.blocks(x, cu_seqlens=cu_seqlens, max_seqlen=int((h * w).max()))\n",
        "import torch\n\n\ndef f(lens, size):\n"
        "    cu_seqlens = torch.nn.functional.pad(lens.cumsum(0), (1, 0)) // size\n"
        "    return {'cu_seqlens': cu_seqlens, 'max_seqlen': int(lens.max()) // size}\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def f(q, k, v, q_lens, k_lens):\n"
            "    cu_q = torch.nn.functional.pad(q_lens.cumsum(0, dtype=torch.int32), (1, 0))\n"
            "    cu_k = torch.nn.functional.pad(k_lens.cumsum(0, dtype=torch.int32), (1, 0))\n"
            "    n = int(q_lens.max())\n"
            "    return flash_attn_varlen_func(q, k, v, cu_q, cu_k, n, n)\n",
            rows=(9,),
        ),
        Invalid(
            "import numpy as np\n\n\nclass Metadata:\n    def build(self, texts, images):\n"
            "        rows = [t + i for t, i in zip(texts, images)]\n"
            "        self.cu_seqlens = np.concatenate([[0], np.cumsum(rows)])\n"
            "        self.max_seqlen = max(texts)\n",
            rows=(8,),
        ),
        Invalid(
            "import torch\n\n\nclass Vision:\n    def forward(self, x, grid):\n"
            "        t, h, w = grid.unbind(-1)\n        m = self.merge\n"
            "        cu_seqlens = torch.repeat_interleave(h * w, t).cumsum(0)\n"
            "        longest = int(((h // m) * (w // m)).max())\n"
            "        return self.blocks(x, cu_seqlens=cu_seqlens, max_seqlen=longest)\n",
            rows=(10,),
        ),
        Invalid(
            "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef pack(rollouts):\n"
            "    rows = [torch.cat([r.prompt, r.answer]) for r in rollouts]\n"
            "    edges = torch.tensor([0, *map(len, rows)]).cumsum(0).int()\n"
            "    longest = max(len(r.prompt) for r in rollouts)\n"
            "    return torch.cat(rows), edges, longest\n\n\n"
            "def attend(project, rollouts):\n    rows, edges, longest = pack(rollouts)\n    q, k, v = project(rows)\n"
            "    return flash_attn_varlen_func(q, k, v, edges, edges, longest, longest)\n",
            rows=(9,),
        ),
        Invalid(
            "import torch\n\n\ndef f(mask, align):\n"
            "    lens = mask.sum(-1)\n"
            "    padded = lens + (-lens % align)\n"
            "    cu_seqlens = torch.cat([lens.new_zeros(1), padded.cumsum(0)])\n"
            "    max_seqlen = lens.max().item()\n"
            "    return cu_seqlens, max_seqlen\n",
            rows=(9,),
        ),
    ),
)
