"""Row numbers inside each sample are joined for a stream of all samples.

### What it does
Finds positions of marked tokens (`nonzero` of a comparison) that were taken in each sample and joined, beside the joined tokens of
these samples, without the offset at which each sample begins.

### Why is this bad?
Whoever indexes the stream with them writes the rows of all samples into the first one.

### Example
```python
spots = [(ids == image_token).nonzero()[:, 0] for ids in samples]
return torch.cat(samples), torch.cat(spots)
```

### Use instead
```python
stream = torch.cat(samples)
return stream, (stream == image_token).nonzero()[:, 0]
```

### Fix safety
No fix.

### References
- [torch.nonzero](https://pytorch.org/docs/stable/generated/torch.nonzero.html)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.rows import rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.queries.naming import part_name
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_FIRST = {"cast", "host", "moved", "copy", "typed_like", "tensor", "Eq", "not"}
_SECOND = {"view", "elementwise", "cat"}
_LENGTHS = frozenset({"lens", "lens_q", "bounds", "bounds_q", "max", "max_q", "ends_q"})


def check(view: View) -> Iterator[Finding]:
    """VL228."""
    if not {"nonzero", "index_in"} & view.module.pool.by_op.keys():
        return
    seen: set[Term] = set()
    for company in companies(view):
        if any(member.role in _LENGTHS for member in company.members):
            continue  # with the lengths at hand, the offsets may be added later
        for member in company.members:
            marked = _marked(member.term)
            if marked is None or member.term in seen:
                continue
            for other in company.members:
                stream = rows_of(other.term)
                if other is member or len(stream.parts) != 1 or not stream.parts[0].each or stream.changes:
                    continue
                if stream.parts[0].changes or stream.parts[0].root is not marked:
                    continue
                seen.add(member.term)
                yield view.finding(
                    RULE,
                    member.node,
                    f"`{member.name or 'this'}` holds row numbers inside {part_name(view, stream.parts[0])}, but "
                    f"`{other.name or 'the stream'}` holds all of them one after the other{view.line(other.term.node)}; add to each the "
                    "number of rows before its sample",
                    notes=[(other.term.node, "the samples are joined here")],
                )
                break


def _marked(term: Term) -> Term | None:
    """The sample whose marked rows a joined value counts."""
    term = _inner(term)
    if term.op == "each":
        element = term.args[0].args[0] if term.args[0].op == "star" else term.args[0]
        found = _inner(element)
        if found.op == "elem" or len(term.args) != 2:
            return None
        if found.op == "each" and found.args[0].op == "index_in" and len(found.args) == 3:
            counted: Term = found.args[0].args[0]  # [i for i, t in enumerate(s) if t == token]
            return counted if found.args[1].op == "enumerate" else None
        if found.op == "nonzero" and (tested := found.args[0]).op in {"Eq", "Gt", "Lt", "GtE", "LtE", "not"}:
            rows = rows_of(_inner(tested))
            return rows.parts[0].root if len(rows.parts) == 1 and not rows.all_changes else None
    return None


def _inner(term: Term) -> Term:
    while True:
        if term.op in _FIRST:
            term = term.args[0]
        elif term.op in _SECOND:
            term = term.args[1]
        elif term.op == "item" and _is_column(term.args[1]):
            term = term.args[0]
        else:
            return term


def _is_column(index: Term) -> bool:
    """`[0]`, `[:, 0]`, `[None]`: another view of the same numbers."""
    parts = index.args if index.op == "tuple" else (index,)
    return all(
        part.is_const(0) or part.is_const(None) or (part.op == "slice" and all(end.is_const(None) for end in part.args))
        for part in parts
    )


_HEAD = "import torch\n\n\n"

RULE = Rule(
    "VL228",
    "row-numbers-of-one-sample",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def pack(samples, token):\n"
        "    ids, spots, offset = [], [], 0\n"
        "    for sample in samples:\n"
        "        ids.append(sample)\n"
        "        spots.append((sample == token).nonzero()[:, 0] + offset)\n"
        "        offset += len(sample)\n"
        "    return torch.cat(ids), torch.cat(spots)\n",
        # Counted in the stream.
        _HEAD + "def pack(samples, token):\n"
        "    ids = torch.cat(samples)\n"
        "    return ids, (ids == token).nonzero()[:, 0], len(samples)\n",
        # The lengths travel along.
        _HEAD + "def pack(samples, token):\n"
        "    spots = torch.cat([(s == token).nonzero()[:, 0] for s in samples])\n"
        "    return {'input_ids': torch.cat(samples), 'spots': spots, 'seq_lens': [len(s) for s in samples]}\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def pack(samples, token):\n"
            "    ids, spots = [], []\n"
            "    for sample in samples:\n"
            "        ids.append(sample)\n"
            "        spots.append((sample == token).nonzero()[:, 0])\n"
            "    return torch.cat(ids), torch.cat(spots)\n",
            rows=(9,),
        ),
        Invalid(
            "import numpy as np\n\n\n"
            "def pack(rows, token):\n"
            "    input_ids = np.concatenate(rows)\n"
            "    image_rows = np.concatenate([np.where(row == token)[0] for row in rows])\n"
            "    return {'input_ids': input_ids, 'image_rows': image_rows}\n",
            rows=(7,),
        ),
    ),
)
