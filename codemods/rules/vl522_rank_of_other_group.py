"""Rows are cut into as many pieces as one group has ranks, and the piece is chosen by the rank in another group.

### What it does
Reports `x.chunk(size)[rank]` and slices from `rank * n` where the number of pieces belongs to one parallel group and the rank to
another: they are read from two group objects, or their names say so (`tp_size` and `cp_rank`).

### Why is this bad?
Ranks hold pieces of each other, or index behind the last piece. Where both groups have the same size nothing fails.

### Example
```python
labels = labels.chunk(cp_group.size(), dim=1)[tp_group.rank()]
```

### Use instead
```python
labels = labels.chunk(cp_group.size(), dim=1)[cp_group.rank()]
```

### Fix safety
No fix: either group may be meant.

### References
- [Megatron Core: parallel state](https://github.com/NVIDIA/Megatron-LM)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.events import Binding, Return
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.wording import value
from shapecheck.codemods.queries.words import words
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

# The dimensions of parallelism.
_GROUPS = {
    "tp",
    "cp",
    "sp",
    "pp",
    "dp",
    "ep",
    "ulysses",
    "tensor",
    "context",
    "sequence",
    "pipeline",
    "data",
    "expert",
    "model",
}
_SAME = {
    "tensor": "tp",
    "context": "cp",
    "sequence": "sp",
    "ulysses": "sp",
    "pipeline": "pp",
    "data": "dp",
    "expert": "ep",
    "model": "tp",
}

_PLAIN = {"size", "world", "rank", "in", "group", "local", "get"}


def check(view: View) -> Iterator[Finding]:
    """VL522."""
    if "chunk" not in view.module.pool.by_op:
        return
    reported: set[Term] = set()
    events: list[Binding | Return] = [*view.bindings, *view.returns]
    for event in events:
        whole: Term = event.value
        for term in whole.walk():
            if term.op != "item" or term.args[0].op != "chunk" or term in reported:
                continue
            chunk: Term = term.args[0]
            count: Term = chunk.args[1]
            rank: Term = term.args[1]
            reported.add(term)
            if _of_other_groups(count, rank):
                yield view.finding(
                    RULE,
                    term.node if term.node is not None else event.node,
                    f"the rows are cut into {value(count)} pieces, but the piece is chosen by {value(rank)}, the rank in another "
                    "group: take both from one group",
                )


def _of_other_groups(count: Term, rank: Term) -> bool:
    counted, chosen = _group(count, {"size"}), _group(rank, {"rank"})
    if counted is None or chosen is None:
        return False
    (owner, said), (other, says) = counted, chosen
    if owner is not None and other is not None:
        return owner is not other and "self" not in {owner.op, other.op} and not (said & says)
    return owner is None and other is None and bool(said) and bool(says) and not said & says


def _group(term: Term, wanted: set[str]) -> tuple[Term | None, set[str]] | None:
    """The group object that a size or rank is read from (None without one), and the groups that its name says."""
    match term.op:
        case "parameter" | "global":
            name, owner = term.args[0], None
        case "attr":
            owner, name = term.args
        case "call":
            values = [arg for arg in term.args[1:] if isinstance(arg, Term)]
            name, owner = term.args[0].rpartition(".")[2], values[0] if len(values) == 1 else None
        case _:
            return None
    said = words("size" if name == "shape" else name)  # group.size() reads like the size of a tensor
    if not wanted & said:
        return None
    if owner is not None and owner.op == "self":
        owner = None
    # Settings such as `config.cp_size` name no group object.
    if owner is not None and (owner.op not in {"parameter", "attr"} or said - _PLAIN):
        return None
    more = words(owner.args[0]) if owner is not None and owner.op == "parameter" else set()
    more |= words(owner.args[1]) if owner is not None and owner.op == "attr" else set()
    return owner, {_SAME.get(word, word) for word in (said | more) & _GROUPS}


RULE = Rule(
    "VL522",
    "rank-of-other-group",
    "stable",
    __doc__,
    check,
    valid=(
        "def f(x, cp_size, cp_rank):\n    return x.chunk(cp_size, dim=1)[cp_rank]\n",
        "def f(x, group):\n    ids = x.chunk(group.size(), dim=1)[group.rank()]\n    return ids\n",
        "def f(x, config, groups):\n    x = x.chunk(config.cp_size, dim=1)[groups.cp.rank_in_group]\n    return x\n",
        "def f(x, mesh, sp_rank):\n    ids = x.chunk(mesh.size(), dim=1)[sp_rank]\n    return ids\n",
    ),
    invalid=(
        Invalid(
            "def f(input_ids, labels, tp, cp):\n"
            "    ids = input_ids.chunk(cp.size(), dim=1)[cp.rank()]\n"
            "    labels = labels.chunk(cp.size(), dim=1)[tp.rank()]\n"
            "    return ids, labels\n",
            rows=(3,),
        ),
        Invalid(
            "import torch\n\n\ndef f(batch, tp_rank, cp_size):\n"
            "    batch['labels'] = torch.chunk(batch['labels'], cp_size, dim=1)[tp_rank]\n"
            "    return batch\n",
            rows=(5,),
        ),
    ),
)
