"""Labels are shifted inside the part of one rank, so the last token of each part loses its target.

### What it does
Finds labels that were cut to the part of a context-parallel rank along the token axis and are shifted by one token afterwards.

### Why is this bad?
The target of a part's last token is the first token of the next rank's part, which is not there any more: the filler replaces it, and
the loss misses one target for each rank.

### Example
```python
labels = labels.chunk(cp_size, dim=1)[cp_rank]
targets = F.pad(labels[:, 1:], (0, 1), value=-100)
```

### Use instead
```python
targets = F.pad(labels[:, 1:], (0, 1), value=-100)
targets = targets.chunk(cp_size, dim=1)[cp_rank]
```

### Fix safety
No fix.

### References
- [transformers: loss with sequence parallelism](https://huggingface.co/docs/accelerate/concept_guides/sequence_parallelism)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.rows import rows_of
from shapecheck.codemods.engine.describe.shifted import behind_first, source_of_shift
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.queries.rearranged import within
from shapecheck.codemods.queries.shards import is_rank_of
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_LOSSES = {"cross_entropy", "nll_loss", "CrossEntropyLoss"}
# Whoever talks to the neighbour fetches the missing target.
_EXCHANGES = {
    "isend",
    "irecv",
    "send",
    "recv",
    "batch_isend_irecv",
    "P2POp",
    "all_gather",
    "all_gather_into_tensor",
    "all_to_all",
}


def check(view: View) -> Iterator[Finding]:
    """VL223."""
    by_op = view.module.pool.by_op
    if not any(op in by_op for op in ("roll", "pad", "cat", "store", "chunk", "slice")) or any(
        call.name in _EXCHANGES for call in view.calls
    ):
        return
    for op in ("pad", "cat", "roll", "store", "item"):
        for term in by_op.get(op, ()):
            source = _padded_then_cut(term) if op == "item" else source_of_shift(term)
            if source is None or term.node is None or not within(view, term):
                continue
            yield from _judged(view, term, source)
    for call in view.calls:
        for given in call.args[1:2] if call.name in _LOSSES else ():
            target = None if given is None else _unviewed(given)
            source = None if target is None else behind_first(target)
            if target is not None and source is not None:
                yield from _judged(view, target, source)


def _unviewed(term: Term) -> Term:
    while term.op in {"view", "cast", "moved"}:
        term = term.args[1 if term.op == "view" else 0]
    return term


def _judged(view: View, shift: Term, source: Term) -> Iterator[Finding]:
    """A finding where what is shifted is the part of one rank."""
    part = _part_of_rank(source)
    if part is not None and shift.node is not None and _is_labels(view, source, part):
        yield view.finding(
            RULE,
            shift.node,
            f"{named(view, source)} is the part of one rank{view.line(part.node)}: shifted by itself, its last token loses its target, "
            "the first token of the next part; shift first, then cut",
            notes=[(part.node, "cut to the rank's part here")],
        )


def _padded_then_cut(term: Term) -> Term | None:
    """`x` for `pad(x, (0, 1))[..., 1:]`."""
    source = behind_first(term)
    if (
        source is None
        or source.op != "pad"
        or source.args[1].op not in {"tuple", "list"}
        or len(source.args[1].args) < 2
    ):
        return None
    before, after, *_ = source.args[1].args
    rows: Term = source.args[0]
    return rows if before.is_const(0) and after.is_const(1) else None


def _part_of_rank(source: Term) -> Term | None:
    """Where rows were cut to the part of a rank along the axis of their tokens, last of all."""
    changes = rows_of(source).all_changes
    if not changes or not is_rank_of(changes[-1]):
        return None
    cut = changes[-1].term
    if changes[-1].kind == "shard":
        axis = cut.args[0].args[2]
        return cut if axis.value in {1, -1} else None
    if cut.op == "narrow":
        return cut if cut.args[1].value in {1, -1} else None
    index = cut.args[1] if cut.op == "item" else None
    return cut if index is not None and index.op == "tuple" and len(index.args) == 2 else None


def _is_labels(view: View, *values: Term) -> bool:
    """Whether a value is labels by its name or by where it comes from."""
    names = [binding.target for binding in view.bindings if binding.value in values]
    for value in values:
        for inner in value.walk():
            if inner.op == "parameter":
                names.append(inner.args[0])
            elif inner.op == "item" and isinstance(inner.args[1].value, str):
                names.append(inner.args[1].value)
    return any("label" in name or "target" in name for name in names)


_HEAD = "import torch.nn.functional as F\n\n\n"

RULE = Rule(
    "VL223",
    "shift-after-shard",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def targets(labels, cp_size, cp_rank):\n"
        "    shifted = F.pad(labels[:, 1:], (0, 1), value=-100)\n"
        "    return shifted.chunk(cp_size, dim=1)[cp_rank]\n",
        # A part of the samples, not of their tokens.
        _HEAD + "def targets(labels, dp_size, dp_rank):\n"
        "    labels = labels.chunk(dp_size, dim=0)[dp_rank]\n"
        "    return F.pad(labels[:, 1:], (0, 1), value=-100)\n",
        # The missing target is fetched from the neighbour.
        _HEAD + "def targets(labels, cp_size, cp_rank, group):\n"
        "    labels = labels.chunk(cp_size, dim=1)[cp_rank]\n"
        "    shifted = F.pad(labels[:, 1:], (0, 1), value=-100)\n"
        "    group.recv(shifted[:, -1], cp_rank + 1)\n"
        "    return shifted\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def targets(labels, cp_size, cp_rank):\n"
            "    labels = labels.chunk(cp_size, dim=1)[cp_rank]\n"
            "    return F.pad(labels[:, 1:], (0, 1), value=-100)\n",
            rows=(6,),
        ),
        Invalid(
            _HEAD + "def targets(labels, sp_size, sp_rank):\n"
            "    local = labels.chunk(sp_size, -1)[sp_rank]\n"
            "    return F.pad(local, (0, 1), value=-100)[..., 1:].contiguous()\n",
            rows=(6,),
        ),
        Invalid(
            "import torch\n\n\n"
            "def targets(batch, mesh, size):\n"
            "    rank = mesh.get_local_rank()\n"
            "    labels = batch['labels'][:, rank * size : (rank + 1) * size]\n"
            "    return torch.cat([labels[:, 1:], labels.new_full((len(labels), 1), -100)], dim=1)\n",
            rows=(7,),
        ),
    ),
)
