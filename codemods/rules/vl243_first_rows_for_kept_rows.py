"""Rows are gathered by an index, what describes them is cut to the first rows of the same number.

### What it does
Finds `x = x.gather(1, kept)` with `kept` from `topk(k)`, `argsort()[:, :k]` or `randperm(n)[:k]`, beside positions, masks or
rotary values that are given anew as their own first k rows.

### Why is this bad?
The kept rows are not the first ones: every row gets the position of another one.

### Example
```python
kept = scores.topk(k, dim=-1).indices
keys = keys.gather(1, kept)
positions = positions[:, :k]
```

### Use instead
```python
kept = scores.topk(k, dim=-1).indices
keys = keys.gather(1, kept)
positions = positions.gather(1, kept)
```

### Fix safety
No fix.

### References
- [torch.gather](https://docs.pytorch.org/docs/stable/generated/torch.gather.html)
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from shapecheck.codemods.findings import Finding
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_CHOOSING = {"topk"}
_SHUFFLING = {"argsort", "randperm"}
_GATHERING = {"gather", "index_select", "take_along_dim", "take_along_axis"}
_DESCRIBING = re.compile(r"positions?$|pos_ids|freqs|rotary|rope|(?:^|_)(?:cos|sin)$|mask|_ids$|tags|labels")


@dataclass(frozen=True, eq=False)
class _Given:
    """`name = value`, one of the assignments of a function."""

    name: str
    value: ast.expr
    node: ast.Assign
    reads: frozenset[str]


def check(view: View) -> Iterator[Finding]:
    """VL243."""
    calls = {call.name for call in view.calls}
    if not calls & (_CHOOSING | _SHUFFLING):
        return
    given = [_given(view, node) for node in view.nodes if isinstance(node, ast.Assign) and len(node.targets) == 1]
    for at, choice in enumerate(given):
        count = _count(view, choice.value)
        if count is None:
            continue
        index, made_of = {choice.name}, set(choice.reads)
        for other in given[:at]:
            if other.name in choice.reads:
                made_of |= other.reads
        gathered: _Given | None = None
        cut: list[_Given] = []
        selected: set[str] = set()
        for other in given[at + 1 :]:
            own = other.name in other.reads
            if own and _gathers(view, other, index):
                gathered = gathered or other
                selected.add(other.name)
            elif own and _cut_to(view, other, count):
                cut.append(other)
            elif other.reads & index and not own:
                index.add(other.name)
        for found in cut:
            if gathered is not None and found.name not in made_of | selected and _DESCRIBING.search(found.name):
                yield view.finding(
                    RULE,
                    found.value,
                    f"`{gathered.name}` keeps the rows of `{choice.name}`{view.line(gathered.node)}, but `{found.name}` keeps its first "
                    f"`{view.source.code(count)}` rows; index it in the same way",
                    notes=[(choice.node, "the rows are chosen here"), (gathered.node, "gathered here")],
                )


def _given(view: View, node: ast.Assign) -> _Given:
    reads = {
        view.source.code(inner)
        for inner in ast.walk(node.value)
        if isinstance(inner, ast.Name | ast.Attribute) and not (isinstance(inner, ast.Name) and inner.id == "self")
    }
    return _Given(view.source.code(node.targets[0]), node.value, node, frozenset(reads))


def _callee(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name
    return ""


def _count(view: View, value: ast.expr) -> ast.expr | None:
    """`k` of `topk(k)`, `argsort()[:, :k]`, `randperm(n)[:k]`, if it is a value with a name."""
    found: ast.expr | None = None
    for node in ast.walk(value):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="topk"), args=[_, count, *_]):
                found = count
            case ast.Call(func=ast.Attribute(attr="topk"), args=[count, *_]):
                found = count
            case ast.Call(keywords=keywords) if _callee(node) == "topk":
                found = next((given.value for given in keywords if given.arg == "k"), found)
            case ast.Subscript(value=inner) if _callee(inner) in _SHUFFLING:
                found = _end(node)
    return found if isinstance(found, ast.Name | ast.Attribute) else None


def _end(node: ast.Subscript) -> ast.expr | None:
    """`k` of `[:k]` and `[:, :k]`."""
    axes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    last = axes[-1]
    whole = all(isinstance(axis, ast.Slice) and axis.lower is axis.upper is axis.step is None for axis in axes[:-1])
    return last.upper if whole and isinstance(last, ast.Slice) and last.lower is last.step is None else None


def _gathers(view: View, given: _Given, index: set[str]) -> bool:
    """`x = x.gather(1, index)`, `x = x[index]`."""
    for node in ast.walk(given.value):
        chosen: list[ast.AST] = []
        match node:
            case ast.Call(args=args, keywords=keywords) if _callee(node) in _GATHERING:
                chosen = [*args, *(keyword.value for keyword in keywords)]
            case ast.Subscript(value=value, slice=index_node) if view.source.code(value) == given.name:
                chosen = [index_node]
        names = {
            view.source.code(inner)
            for arg in chosen
            for inner in ast.walk(arg)
            if isinstance(inner, ast.Name | ast.Attribute)
        }
        if names & index:
            return True
    return False


def _cut_to(view: View, given: _Given, count: ast.expr) -> bool:
    """`x = x[:k]`, `x = x[:, :k]`, also with a view of it."""
    for node in ast.walk(given.value):
        if isinstance(node, ast.Subscript) and view.source.code(node.value) == given.name:
            end = _end(node)
            return end is not None and view.source.code(end) == view.source.code(count)
    return False


_HEAD = "import torch\n\n\n"

RULE = Rule(
    "VL243",
    "first-rows-for-kept-rows",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD
        + "def f(x, scores, positions, k):\n    kept = scores.topk(k, dim=-1).indices\n    x = x.gather(1, kept)\n"
        "    positions = positions.gather(1, kept)\n    return x, positions\n",
        # First sorted, then cut.
        _HEAD + "def f(x, scores, mask, k):\n    order = scores.argsort(dim=1)\n    mask = mask.gather(1, order)\n"
        "    kept = scores.argsort(dim=1)[:, :k]\n    x = x.gather(1, kept)\n    return x, mask[:, :k]\n",
        _HEAD + "def f(x, scores, mask, k, n):\n    kept = scores.topk(k, dim=-1).indices\n    x = x.gather(1, kept)\n"
        "    mask = mask[:, :n]\n    return x, mask\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def f(x, freqs, count, k):\n    ids = torch.rand(4, count).argsort(dim=1)[:, :k]\n"
            "    x = x.gather(1, ids.unsqueeze(-1).expand(-1, -1, 8))\n    freqs = freqs[:k].expand(4, -1, -1)\n    return x, freqs\n",
            rows=(7,),
        ),
        Invalid(
            _HEAD
            + "class Cache:\n    def drop(self, scores):\n        kept = torch.topk(scores, self.size, dim=-1).indices\n"
            "        index = kept[:, None, :, None].expand(-1, 8, -1, 64)\n        self.keys = self.keys.gather(2, index)\n        self.values = self.values.gather(2, index)\n        key_mask = torch.cat([self.mask, scores > 0])\n"
            "        self.key_positions = self.key_positions[:, : self.size]\n",
            rows=(11,),
        ),
        Invalid(
            _HEAD + "def f(rows, segment_ids, n, k):\n    keep = torch.randperm(n)[:k]\n    rows = rows[keep]\n"
            "    segment_ids = segment_ids[:k]\n    return rows, segment_ids\n",
            rows=(7,),
        ),
    ),
)
