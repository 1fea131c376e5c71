"""A running offset advances by something else than the rows that were taken.

### What it does
Reports loops over segments whose running boundary is not the sum of the lengths so far: the previous length is kept in place of the
previous boundary, a length that already runs is added again, or the offset advances by one factor of the rows that were sliced.

### Why is this bad?
Only the first segment is right. Every later one starts in the middle of another.

### Example
```python
for height, width in grids:
    image = features[offset : offset + height * width]
    offset += height
```

### Use instead
```python
for height, width in grids:
    image = features[offset : offset + height * width]
    offset += height * width
```

### Fix safety
No fix: the loop may be mended in several places.

### References
- [itertools.accumulate](https://docs.python.org/3/library/itertools.html#itertools.accumulate)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.events import Binding, Call
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.everything import values
from shapecheck.codemods.queries.growing import grows
from shapecheck.codemods.queries.slots import BOUNDS, slots
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL113."""
    yield from _cumulated_twice(view)
    advances = [binding for binding in view.bindings if binding.context and binding.context[-1][0].op == "loop"]
    if advances:
        yield from _previous_length(view, advances)
        yield from _set_to_length(view, advances)
        yield from _skipped(view, advances)
        yield from _other_step(view, advances)


def _cumulated_twice(view: View) -> Iterator[Finding]:
    for slot in slots(view, BOUNDS):
        bounds = bounds_of(slot.term)
        if bounds is None or bounds.kind != "lens" or bounds.source.op != "each":
            continue
        length = plain(bounds.source.args[0])
        if (length.op in {"len", "numel"} and grows(length.args[0])) or (
            length.op == "Add" and length.args[0].op == "round"
        ):
            yield view.finding(
                RULE,
                length.node or slot.node,
                f"the boundaries{view.line(bounds.term.node)} are a running sum of this length, but it counts the rows of all rounds so far, "
                "so it is a running sum already; add the length of the new rows only",
                notes=[(bounds.term.node, "summed again here")],
            )


def _previous_length(view: View, advances: list[Binding]) -> Iterator[Finding]:
    """`ends.append(previous + n)`, then `previous = n`."""
    for call in view.calls:
        total = call.args[0] if call.name == "append" and len(call.args) == 1 else None
        if total is None or total.op != "Add" or not call.context or call.receiver is None:
            continue
        for running, step in (total.args, reversed(total.args)):
            if running.op != "round" or step.op == "const":
                continue
            kept = next((at for at in advances if at.target == running.args[0] and at.context == call.context), None)
            if kept is not None and kept.value is step and _starts_with_zero(view, call.receiver):
                yield view.finding(
                    RULE,
                    kept.node,
                    f"`{kept.target}` is added to each length as if it were the boundary before it{view.line(call.node)}, but it is set "
                    "to the previous length only; set it to the new boundary",
                    notes=[(call.node, "the boundary is the sum of two lengths")],
                )


def _starts_with_zero(view: View, grown: Term) -> bool:
    """Whether a list that a loop appends to was `[0]` before it."""
    if grown.op != "round":
        return False
    before = [binding.value for binding in view.bindings if binding.target == grown.args[0] and not binding.context]
    return bool(before) and before[0].op == "list" and len(before[0].args) == 1 and before[0].args[0].is_const(0)


def _set_to_length(view: View, advances: list[Binding]) -> Iterator[Finding]:
    """`ends.append(local + shift)`, then `shift = local[-1]` or `shift = len(rows)`: all rounds before but one are forgotten."""
    for call in view.calls:
        added = call.args[0] if call.name in {"append", "extend"} and len(call.args) == 1 else None
        while added is not None and added.op in {"list", "each", "tuple"} and len(added.args) in {1, 2}:
            added = added.args[0]
        if added is None or added.op != "Add" or not call.context:
            continue
        for offset, local in (added.args, reversed(added.args)):
            sets = [at for at in advances if offset.op == "round" and at.target == offset.args[0]]
            if (
                len(sets) != 1
                or sets[0].context != call.context
                or sets[0].order < call.order
                or not _from_zero(offset)
            ):
                continue
            if _is_last_of(sets[0].value, local) or _measures_rows_of(sets[0].value, local):
                yield view.finding(
                    RULE,
                    sets[0].node,
                    f"`{sets[0].target}` is where the rows of a round start{view.line(call.node)}, but it is set to the number of rows of "
                    "one round instead of growing by it: from the third round on it is too small; add to it",
                    notes=[(call.node, "added to the places of the round")],
                )


def _from_zero(offset: Term) -> bool:
    start = offset.pool.first_round.get(offset)
    return start is not None and start.is_const(0)


def _is_last_of(value: Term, local: Term) -> bool:
    """Whether a value is the last one of running ends."""
    last, ends = plain(value), plain(local)
    if ends.op == "elem":
        ends = plain(ends.args[0])
    return last.op == "item" and bool(last.args[1].is_const(-1)) and plain(last.args[0]) is ends


def _measures_rows_of(value: Term, local: Term) -> bool:
    """Whether a value is the length of the rows in which places were found."""
    length, places = plain(value), plain(local)
    if places.op == "elem":
        places = plain(places.args[0])
    if places.op == "item" and places.args[0].op == "nonzero":
        places = places.args[0]
    if length.op not in {"len", "shape", "numel"} or places.op != "nonzero":
        return False
    return plain(length.args[0]) in set(places.walk())


def _skipped(view: View, advances: list[Binding]) -> Iterator[Finding]:
    """`stream.append(rows)` in each round, but `offset += len(rows)` only in some."""
    for binding in advances + [at for at in view.bindings if at.context and at.context[-1][0].op != "loop"]:
        at = next(
            (place for place in range(len(binding.context) - 1, -1, -1) if binding.context[place][0].op == "loop"), None
        )
        value = binding.value
        if at is None or at == len(binding.context) - 1 or value.op != "Add" or value.args[0].op != "round":
            continue
        offset, step = value.args[0], plain(value.args[1])
        if offset.args[0] != binding.target or not _from_zero(offset) or not _counts_rows(step):
            continue
        loop = binding.context[: at + 1]
        others = [one for one in view.bindings if one.target == binding.target and one.context[: at + 1] == loop]
        if len(others) != 1:
            continue
        rows = plain(step.args[0])
        taken = next((call for call in view.calls if call.context == loop and _takes(call, rows)), None)
        used = any(
            call.name in {"append", "extend"}
            and any(arg is not None and offset in set(arg.walk()) for arg in call.args)
            for call in view.calls
        )
        if taken is not None and used:
            yield view.finding(
                RULE,
                binding.node,
                f"`{binding.target}` counts the rows that were collected so far, but it grows only under a condition while the rows are "
                f"collected in any case{view.line(taken.node)}: later places are too small; let it grow in each round",
                notes=[(taken.node, "the rows are collected in each round")],
            )


def _counts_rows(step: Term) -> bool:
    return (
        step.op in {"len", "numel"}
        or (step.op == "shape" and bool(step.args[1].is_const(0)))
        or (step.op == "attr" and step.args[1] == "size")
    )


def _takes(call: Call, rows: Term) -> bool:
    """Whether a call collects rows."""
    return (
        call.name in {"append", "extend"}
        and len(call.args) == 1
        and call.args[0] is not None
        and plain(call.args[0]) is rows
    )


def _other_step(view: View, advances: list[Binding]) -> Iterator[Finding]:
    """`x[offset : offset + h * w]`, then `offset += h`."""
    steps = {}
    for binding in advances:
        value = binding.value
        if value.op == "Add" and value.args[0].op == "round" and value.args[0].args[0] == binding.target:
            steps[value.args[0]] = binding
    if not steps:
        return
    taken: dict[Term, set[Term]] = {}
    for term in values(view):
        if (
            term.op == "slice"
            and term.args[0] in steps
            and term.args[1].op == "Add"
            and term.args[1].args[0] is term.args[0]
        ):
            taken.setdefault(term.args[0], set()).add(plain(term.args[1].args[1]))
        elif term.op == "narrow" and term.args[2] in steps and term.args[3].op == "Add":
            taken.setdefault(term.args[2], set()).add(plain(term.args[3].args[1]))
    for offset, sizes in taken.items():
        binding = steps[offset]
        step = plain(binding.value.args[1])
        if len(sizes) == 1 and _is_factor(step, size := next(iter(sizes))) and _varies(step):
            yield view.finding(
                RULE,
                binding.node,
                f"`{binding.target}` advances by one factor of the rows that are taken{view.line(size.node)}, so the next slice starts "
                "inside this one; advance by the number of rows",
                notes=[(size.node, "the rows that are taken")],
            )


def _is_factor(step: Term, size: Term) -> bool:
    if size.op != "Mult":
        return False
    return any(plain(side) is step or _is_factor(step, plain(side)) for side in size.args)


def _varies(term: Term) -> bool:
    """Whether a value belongs to the item of the round; a fixed stride may be smaller than a window."""
    return any(inner.op in {"elem", "index_in"} for inner in term.walk())


RULE = Rule(
    "VL113",
    "wrong-running-offset",
    "stable",
    __doc__,
    check,
    valid=(
        "def f(features, grids, cu_seqlens):\n    offset = 0\n    rows = []\n    for height, width in grids:\n"
        "        rows.append(features[offset : offset + height * width])\n        offset += height * width\n    return rows\n",
        "def f(x, window, stride, n, cu_seqlens):\n    offset = 0\n    rows = []\n    for _ in range(n):\n"
        "        rows.append(x[offset : offset + window * stride])\n        offset += stride\n    return rows\n",
        "def f(docs):\n    tokens, cu_seqlens = [], [0]\n    previous = 0\n    for doc in docs:\n        tokens.extend(doc)\n"
        "        cu_seqlens.append(previous + len(doc))\n        previous = cu_seqlens[-1]\n    return tokens, cu_seqlens\n",
        "def f(docs):\n    tokens, cu_seqlens = [], [0]\n    for doc in docs:\n        tokens.extend(doc)\n"
        "        cu_seqlens.append(len(tokens))\n    return tokens, cu_seqlens\n",
        "import torch\n\n\ndef f(packs):\n    cu_seqlens, shift = [torch.zeros(1)], 0\n    for pack in packs:\n"
        "        ends = pack.lengths.cumsum(0)\n        cu_seqlens.append(ends + shift)\n        shift += int(ends[-1])\n"
        "    return torch.cat(cu_seqlens)\n",
        "def f(docs, image):\n    tokens, spots, offset = [], [], 0\n    for doc in docs:\n        tokens.append(doc['input_ids'])\n"
        "        if 'pixels' in doc:\n            spots.append((doc['input_ids'] == image).nonzero() + offset)\n"
        "        offset += len(doc['input_ids'])\n    return tokens, spots\n",
        "def f(docs, image):\n    tokens, spots, offset = [], [], 0\n    for doc in docs:\n        if 'pixels' in doc:\n"
        "            tokens.append(doc['input_ids'])\n            spots.append((doc['input_ids'] == image).nonzero() + offset)\n"
        "            offset += len(doc['input_ids'])\n    return tokens, spots\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef f(packs):\n    cu_seqlens, shift = [torch.zeros(1)], 0\n    for pack in packs:\n"
            "        ends = pack.lengths.cumsum(0)\n        cu_seqlens.append(ends + shift)\n        shift = int(ends[-1])\n"
            "    return torch.cat(cu_seqlens)\n",
            rows=(9,),
        ),
        Invalid(
            "def f(docs, image):\n    tokens, spots, base = [], [], 0\n    for input_ids in docs:\n        tokens.append(input_ids)\n"
            "        spots.append((input_ids == image).nonzero().flatten() + base)\n        base = input_ids.numel()\n"
            "    return tokens, spots\n",
            rows=(6,),
        ),
        Invalid(
            "def f(docs, image):\n    tokens, spots, offset = [], [], 0\n    for doc in docs:\n        tokens.append(doc['input_ids'])\n"
            "        if 'pixels' not in doc:\n            continue\n"
            "        spots.append((doc['input_ids'] == image).nonzero() + offset)\n        offset += len(doc['input_ids'])\n"
            "    return tokens, spots\n",
            rows=(8,),
        ),
        Invalid(
            "def f(features, grids, cu_seqlens):\n    offset = 0\n    rows = []\n    for height, width in grids:\n        count = height * width\n"
            "        rows.append(features[offset : offset + count])\n        offset += height\n    return rows\n",
            rows=(7,),
        ),
        Invalid(
            "def f(docs, eos):\n    tokens, cu_seqlens = [], [0]\n    previous = 0\n    for doc in docs:\n        row = [*doc, eos]\n"
            "        tokens.extend(row)\n        cu_seqlens.append(previous + len(row))\n        previous = len(row)\n"
            "    return tokens, cu_seqlens\n",
            rows=(8,),
        ),
        Invalid(
            "def f(docs):\n    tokens, cu_seqlens = [], [0]\n    for doc in docs:\n        tokens.extend(doc)\n"
            "        cu_seqlens.append(cu_seqlens[-1] + len(tokens))\n    return tokens, cu_seqlens\n",
            rows=(5,),
        ),
    ),
)
