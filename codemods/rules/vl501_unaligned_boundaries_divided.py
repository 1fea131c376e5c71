"""Boundaries are divided by the number of ranks although the segments are no multiples of it.

### What it does
Reports `cu_seqlens // n` beside rows that were cut into `n` pieces so that the pieces do not hold an `n`-th of each segment: segments
are cut by `tensor_split`, which makes unequal pieces, or were not padded to a multiple; or the whole stream was padded and cut into
`n` contiguous pieces, so that a rank holds some segments whole and others not at all.

### Why is this bad?
Floor division drops the remainders: the boundaries of a rank drift away from its rows, by up to one row for each segment.

### Example
```python
pieces = [segment.tensor_split(cp_size)[rank] for segment in segments]
local_bounds = cu_seqlens // cp_size
```

### Use instead
```python
pieces = [segment.tensor_split(cp_size)[rank] for segment in segments]
local_lens = torch.tensor([len(piece) for piece in pieces])
local_bounds = F.pad(local_lens.cumsum(0), (1, 0))
```

### Fix safety
No fix: either the segments must be padded first, or the pieces measured.

### References
- [TransformerEngine: context parallelism for packed sequences](https://github.com/NVIDIA/TransformerEngine)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import Bounds, bounds_of
from shapecheck.codemods.engine.describe.lengths import lens_of, plain
from shapecheck.codemods.engine.describe.rows import Rows, rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.wording import value, written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_UNEVEN = {"tensor_split", "array_split"}


def check(view: View) -> Iterator[Finding]:
    """VL501."""
    pool = view.module.pool
    if "FloorDiv" not in pool.by_op or "chunk" not in pool.by_op:
        return
    chunks = [call for call in view.calls if call.result.op == "chunk"]
    reported: set[Term] = set()
    for term, node in _values(view) if chunks else ():
        bounds = bounds_of(term)
        if bounds is None or bounds.divisor is None or bounds.kind != "lens" or bounds.divisor.is_const(1):
            continue
        for call in chunks:
            if not _is_multiple(call.result.args[1], bounds.divisor) or plain(term) in reported:
                continue
            reason = _mismatch(call.result, call.name, bounds)
            if reason is not None:
                reported.add(plain(term))
                yield view.finding(
                    RULE,
                    node,
                    f"the boundaries are divided by {value(bounds.divisor)}, but {reason} (line {call.node.lineno}), so a piece does "
                    f"not hold that part of every segment: pad every segment to a multiple of {value(bounds.divisor)} first, or "
                    "build the boundaries from the lengths of the pieces",
                    notes=[(call.node, f"{written(call.node)} cuts the rows")],
                )


def _values(view: View) -> Iterator[tuple[Term, ast.AST]]:
    for binding in view.bindings:
        yield binding.value, binding.value_node or binding.node
    for bundle in view.bundles:
        for member in bundle.members:
            yield member.term, member.node
    for consumer in view.consumers:
        for argument in consumer.roles.values():
            yield argument.term, argument.node


def _is_multiple(count: Term, divisor: Term) -> bool:
    """Whether rows were cut into as many pieces, or into twice as many: the zigzag order."""
    count, divisor = plain(count), plain(divisor)
    return count is divisor or (count.op == "Mult" and divisor in count.args)


def _mismatch(chunk: Term, name: str, bounds: Bounds) -> str | None:
    source = plain(chunk.args[0])
    if _is_aligned(bounds.source):
        return None
    if _is_segment(source, bounds):
        if name in _UNEVEN:
            return f"`{name}` cuts each segment into unequal pieces"
        lens = lens_of(bounds.source)
        if lens is not None and lens.kind == "parts" and all(not part.changes for part in lens.parts):
            return f"the segments that `{name}` cuts were not padded to a multiple of it"
        return None
    rows = rows_of(source)
    changes = rows.all_changes
    if rows.known and changes and all(change.kind == "pad" for change in changes) and _is_stream(rows.parts[0].root):
        return f"`{name}` cuts the padded stream of all segments into contiguous pieces"
    if rows.known and not changes and any(part.each for part in rows.parts) and _measures(bounds, rows):
        return f"`{name}` cuts the joined stream of all segments into contiguous pieces"
    return None


def _measures(bounds: Bounds, rows: Rows) -> bool:
    """Whether the boundaries count these very rows."""
    lens = lens_of(bounds.source)
    return (
        lens is not None
        and lens.kind == "parts"
        and [part.key for part in lens.parts] == [part.key for part in rows.parts]
    )


def _is_stream(root: Term) -> bool:
    return root.op in {"parameter", "attr", "item"}


def _is_segment(source: Term, bounds: Bounds) -> bool:
    """`x[cu[i]:cu[i + 1]]`, or an item of a list of segments."""
    if source.op == "elem":
        return True
    if source.op != "item" or source.args[1].op != "slice":
        return False
    start = plain(source.args[1].args[0])
    return start.op in {"item", "elem"}


def _is_aligned(lens: Term) -> bool:
    """Whether lengths may have been rounded to a multiple: they were computed, not only measured."""
    return any(inner.op in {"Mult", "Mod", "FloorDiv", "call", "pad", "Sub"} for inner in lens.walk())


RULE = Rule(
    "VL501",
    "unaligned-boundaries-divided",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef f(x, lens, world, rank):\n"
        "    lens = (lens + world - 1) // world * world\n"
        "    cu = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
        "    rows = [x[cu[i] : cu[i + 1]].tensor_split(world)[rank] for i in range(len(lens))]\n"
        "    return torch.cat(rows), cu // world\n",
        "import torch\n\n\ndef f(docs, world, rank):\n"
        "    docs = [torch.nn.functional.pad(d, (0, -len(d) % world)) for d in docs]\n"
        "    cu_seqlens = torch.tensor([0] + [len(d) for d in docs]).cumsum(0)\n"
        "    return torch.cat([d.chunk(world)[rank] for d in docs]), cu_seqlens // world\n",
        "import torch\n\n\ndef f(x, cu_seqlens, world, rank):\n    return x.chunk(world)[rank], cu_seqlens // world\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef f(x, lens, world, rank):\n"
            "    cu = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
            "    rows = [x[cu[i] : cu[i + 1]].tensor_split(world)[rank] for i in range(len(lens))]\n"
            "    cu_seqlens = cu // world\n"
            "    return torch.cat(rows), cu_seqlens\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\n\n\ndef f(docs, world, rank):\n"
            "    cu_seqlens = torch.tensor([0] + [len(d) for d in docs]).cumsum(0)\n"
            "    cu_seqlens = torch.div(cu_seqlens, world, rounding_mode='floor')\n"
            "    return torch.cat([d.chunk(world)[rank] for d in docs]), cu_seqlens\n",
            rows=(6,),
        ),
        Invalid(
            "import torch\n\n\ndef f(docs, world, rank):\n"
            "    ids = torch.cat(docs)\n"
            "    cu_seqlens = torch.tensor([0] + [d.numel() for d in docs]).cumsum(0)\n"
            "    return dict(input_ids=ids.chunk(world)[rank], cu_seqlens=cu_seqlens // world)\n",
            rows=(7,),
        ),
        Invalid(
            "import torch.nn.functional as F\n\n\ndef f(ids, lens, world, rank):\n"
            "    ids = F.pad(ids, (0, -ids.numel() % world))\n"
            "    cu = F.pad(lens.cumsum(0), (1, 0))\n"
            "    return {'input_ids': ids.chunk(world)[rank], 'cu_seqlens': cu // world}\n",
            rows=(7,),
        ),
    ),
)
