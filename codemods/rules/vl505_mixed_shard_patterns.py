"""Fields of one batch are cut for the ranks in different ways.

### What it does
Reports tensors that leave a function together, all cut into pieces by the same number of ranks and the same rank, of which one holds
other pieces than the rest: two mirrored chunks of `2 * world` (the zigzag order) beside one contiguous chunk of `world`.

### Why is this bad?
The shapes agree, so nothing fails: tokens are given the positions, labels or tags of other tokens.

### Example
```python
chunks = ids.chunk(2 * world)
batch = {
    "input_ids": torch.cat([chunks[rank], chunks[2 * world - 1 - rank]]),
    "position_ids": position_ids.chunk(world)[rank],
}
```

### Use instead
```python
batch = {"input_ids": zigzag(ids, world, rank), "position_ids": zigzag(position_ids, world, rank)}
```

### Fix safety
No fix: both orders are in use.

### References
- [ring-flash-attention: zigzag](https://github.com/zhuzilin/ring-flash-attention)
"""

from collections import Counter
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, Bundle, View

# The pieces of a tensor in order: how many there are, and which one.
_Pieces = tuple[tuple[Term, Term], ...]
_LEAVES = {"parameter", "attr", "global", "call"}


def check(view: View) -> Iterator[Finding]:
    """VL505."""
    if "chunk" not in view.module.pool.by_op:
        return
    for bundle in view.bundles:
        odd = _odd_member(bundle)
        if odd is None:
            continue
        member, usual = odd
        yield view.finding(
            RULE,
            member.node,
            f"`{member.name}` holds {_described(_pieces(member.term))}, but `{usual.name}` beside it holds "
            f"{_described(_pieces(usual.term))}: cut them in the same way",
            notes=[(usual.node, "cut differently")],
        )


def _odd_member(bundle: Bundle) -> tuple[Argument, Argument] | None:
    cut = [(member, pieces) for member in bundle.members if (pieces := _pieces(member.term))]
    counts = Counter(pieces for _, pieces in cut)
    if len(counts) != 2:
        return None
    if len({_ranks(pieces) for _, pieces in cut}) != 1:
        return None
    (usual, most), (_, least) = counts.most_common()
    kept = next(member for member, pieces in cut if pieces == usual)
    others = [member for member, pieces in cut if pieces != usual]
    if most == least and kept.role not in {"rows", ""}:
        kept, others = others[0], [kept]
    return (others[0], kept) if len(others) == 1 else None


def _pieces(term: Term) -> _Pieces:
    """The pieces that a value was joined from; empty if it is no such value."""
    term = plain(term)
    if term.op == "cat" and term.args[1].op in {"list", "tuple"}:
        found = [_pieces(part) for part in term.args[1].children()]
        return tuple(piece for pieces in found for piece in pieces) if all(len(pieces) == 1 for pieces in found) else ()
    if term.op == "item" and term.args[0].op == "chunk" and term.args[1].op not in {"slice", "const"}:
        return ((term.args[0].args[1], term.args[1]),)
    return ()


def _ranks(pieces: _Pieces) -> frozenset[Term]:
    """The values that decide which pieces these are."""
    return frozenset(
        inner
        for piece in pieces
        for term in piece
        for inner in term.walk()
        if inner.op in _LEAVES and inner.op != "self"
    )


def _described(pieces: _Pieces) -> str:
    return "one contiguous piece" if len(pieces) == 1 else f"{len(pieces)} pieces"


RULE = Rule(
    "VL505",
    "mixed-shard-patterns",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef f(input_ids, position_ids, world, rank):\n"
        "    a, b = input_ids.chunk(2 * world), position_ids.chunk(2 * world)\n"
        "    return {\n"
        "        'input_ids': torch.cat([a[rank], a[2 * world - 1 - rank]]),\n"
        "        'position_ids': torch.cat([b[rank], b[2 * world - 1 - rank]]),\n"
        "    }\n",
        "def f(input_ids, labels, cp, cp_rank, tp, tp_rank):\n"
        "    return {\n"
        "        'input_ids': input_ids.chunk(cp)[cp_rank],\n"
        "        'labels': labels.chunk(tp)[tp_rank],\n"
        "    }\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef f(input_ids, position_ids, world, rank):\n"
            "    a = input_ids.chunk(2 * world)\n"
            "    return {\n"
            "        'input_ids': torch.cat([a[rank], a[2 * world - 1 - rank]]),\n"
            "        'position_ids': position_ids.chunk(world)[rank],\n"
            "    }\n",
            rows=(8,),
        ),
        Invalid(
            "import torch\n\n\ndef take(x, world, rank):\n"
            "    parts = x.chunk(2 * world)\n"
            "    return torch.cat([parts[rank], parts[2 * world - 1 - rank]])\n\n\n"
            "def f(input_ids, labels, position_ids, world, rank):\n"
            "    ids, position_ids = take(input_ids, world, rank), take(position_ids, world, rank)\n"
            "    weights = torch.chunk(labels != -100, world)[rank]\n"
            "    labels = torch.chunk(labels, world)[rank]\n"
            "    return ids, labels, position_ids\n",
            rows=(13,),
        ),
    ),
)
