"""Each round of a loop keeps a view of one buffer that the next round overwrites.

### What it does
Reports loops that write boundaries or lengths into a buffer made before the loop and keep a view of it, without a copy, in a list or
dict for each round.

### Why is this bad?
A slice of a tensor or array is no copy. After the loop every kept view shows the values of the last round.

### Example
```python
for lens in groups:
    n = len(lens)
    scratch[1 : n + 1] = torch.tensor(lens).cumsum(0)
    plans.append({"cu_seqlens": scratch[: n + 1]})
```

### Use instead
```python
for lens in groups:
    n = len(lens)
    scratch[1 : n + 1] = torch.tensor(lens).cumsum(0)
    plans.append({"cu_seqlens": scratch[: n + 1].clone()})
```

### Fix safety
Unsafe: the kept values change, which is the purpose.

### References
- [Tensor views](https://docs.pytorch.org/docs/stable/tensor_view.html)
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from shapecheck.codemods.engine.events import Binding
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding, Fix, Replace
from shapecheck.codemods.queries.inplace import Write, nodes_of, starts_at_the_same_place, view_of, writes, written
from shapecheck.codemods.queries.libraries import library_of
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_TENSORS = {"full", "full_like", "tensor", "arange", "cumsum", "pad", "cat", "typed_like", "cast"}
_SAME_MEMORY = {"store", "filled", "moved", "view"}


@dataclass(frozen=True, eq=False)
class _Kept:
    base: str
    index: ast.expr | None
    node: ast.expr
    place: ast.expr  # what is kept: the view itself, or the name that it has


def check(view: View) -> Iterator[Finding]:
    """VL114."""
    if view.module.pool.by_op.keys().isdisjoint(("store", "filled")):
        return
    for loop in view.nodes:
        if not isinstance(loop, ast.For | ast.While):
            continue
        made = [write for write in writes(nodes_of(loop.body)) if starts_at_the_same_place(write.index)]
        if not made or _leaves(loop):
            continue
        rebound = set(_rebound(loop))
        for kept in _kept(view, loop, rebound):
            write = next((write for write in made if write.base == kept.base), None)
            if write is None or kept.base in rebound or not _is_array(view, write, made):
                continue
            copy = _copy(view, kept, made)
            yield view.finding(
                RULE,
                kept.node,
                f"every round keeps a view of the same buffer `{kept.base}`, which the next round overwrites"
                f"{view.line(write.node)}: in the end all of them hold the last round's values; keep a copy, "
                + (f"`.{copy}()`" if copy else "`.clone()` of a tensor or `.copy()` of an array"),
                notes=[(write.node, f"`{kept.base}` is overwritten here in each round")],
                fix=_fix(view, loop, kept, copy) if copy else None,
            )


def _fix(view: View, loop: ast.For | ast.While, kept: _Kept, copy: str) -> Fix | None:
    """Copies what is kept, where the round has filled it by then."""
    names = {kept.base, written(kept.place)}
    if any(write.base in names and _start(write.node) > _start(kept.place) for write in writes(nodes_of(loop.body))):
        return None
    return view.fix(
        f"Keep a copy with `.{copy}()`",
        Replace(view.source.span(kept.place), f"{view.source.code(kept.place)}.{copy}()"),
    )


def _start(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _copy(view: View, kept: _Kept, made: list[Write]) -> str | None:
    """The method that copies the buffer; None where it may be of torch or of numpy."""
    if any(write.torch_method for write in made if write.base == kept.base):
        return "clone"
    library = library_of(view, kept.node, _bindings(view, kept.base))
    return {"torch": "clone", "numpy": "copy"}.get(library or "")


def _leaves(loop: ast.For | ast.While) -> bool:
    return any(isinstance(node, ast.Break | ast.Return | ast.Yield | ast.YieldFrom) for node in nodes_of(loop.body))


def _rebound(loop: ast.For | ast.While) -> Iterator[str]:
    """Names and attributes that a round binds anew."""
    targets = [loop.target] if isinstance(loop, ast.For) else []
    grown = {node.target for node in nodes_of(loop.body) if isinstance(node, ast.AugAssign)}  # the same object
    for node in (*targets, *nodes_of(loop.body)):
        if node in grown:
            continue
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield ast.unparse(node)
        elif isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Store):
            yield from (ast.unparse(part) for part in node.elts)


def _kept(view: View, loop: ast.For | ast.While, rebound: set[str]) -> Iterator[_Kept]:
    """The views that outlive a round: appended to a list, or stored under a key, of something made before the loop."""
    items = (
        {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
        if isinstance(loop, ast.For)
        else set()
    )
    for node in nodes_of(loop.body):
        match node:
            case ast.Call(func=ast.Attribute(value=container, attr="append"), args=[item]):
                name = written(container)
            case ast.Assign(targets=[ast.Subscript(value=container, slice=key)], value=item):
                name = written(container)
                if starts_at_the_same_place(key) or not _is_collection(view, name):
                    continue
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=ast.List() as item):
                pass
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name))], value=item) if name in items:
                yield from _views(item)
                continue
            case _:
                continue
        if name is not None and name not in rebound:
            value = _value(item, loop)
            for kept in _views(value):
                if kept.base != name:
                    yield replace(kept, place=item) if kept.node is value else kept


def _value(item: ast.expr, loop: ast.For | ast.While) -> ast.expr:
    """What a name is bound to in the round, if it is bound once."""
    if not isinstance(item, ast.Name):
        return item
    values = [
        node.value
        for node in nodes_of(loop.body)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == item.id for target in node.targets)
    ]
    return values[0] if len(values) == 1 else item


def _is_collection(view: View, name: str | None) -> bool:
    """Whether a name was bound to a list or dict: storing into a tensor copies."""
    return any(binding.target == name and binding.value.op in {"list", "dict", "each"} for binding in view.bindings)


def _views(node: ast.expr) -> Iterator[_Kept]:
    match node:
        case ast.Dict(values=values):
            parts = values
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            parts = elts
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name == "dict" or name[:1].isupper():
            parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        case _:
            found = view_of(node)
            if found is not None and starts_at_the_same_place(found[1]):
                yield _Kept(*found, node, node)
            return
    for part in parts:
        yield from _views(part)


def _is_array(view: View, write: Write, made: list[Write]) -> bool:
    """Whether the buffer is a tensor or array: a slice of a list is a copy."""
    if any(other.torch_method for other in made if other.base == write.base):
        return True
    return any(binding.target == write.base and _makes_array(binding.value) for binding in _bindings(view, write.base))


def _bindings(view: View, base: str) -> list[Binding]:
    """The bindings of the function, and of `__init__` for an attribute of self."""
    owner = view.function.owner
    if owner is None or not base.startswith("self."):
        return view.bindings
    init = view.module.method(owner, "__init__")
    return view.bindings if init is None else [*view.bindings, *view.module.interpret(init).bindings]


def _makes_array(term: Term) -> bool:
    while term.op in _SAME_MEMORY:
        term = term.args[1] if term.op == "view" else term.args[0]
    return term.op in _TENSORS


RULE = Rule(
    "VL114",
    "shared-step-buffer",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef f(groups, capacity):\n    scratch = torch.zeros(capacity + 1, dtype=torch.int32)\n    plans = []\n"
        "    for lens in groups:\n        scratch[1 : len(lens) + 1] = torch.tensor(lens).cumsum(0)\n"
        "        plans.append(scratch[: len(lens) + 1].clone())\n    return plans\n",
        "import torch\n\n\ndef f(groups, capacity):\n    plans = []\n    for lens in groups:\n"
        "        scratch = torch.zeros(capacity + 1, dtype=torch.int32)\n"
        "        scratch[1 : len(lens) + 1] = torch.tensor(lens).cumsum(0)\n"
        "        plans.append(scratch[: len(lens) + 1])\n    return plans\n",
        "import torch\n\n\ndef f(parts, total):\n    seq_lens = torch.zeros(total)\n    views = []\n    start = 0\n"
        "    for part in parts:\n        end = start + len(part)\n        seq_lens[start:end] = part\n"
        "        views.append(seq_lens[start:end])\n        start = end\n    return views\n",
        "def f(groups):\n    lens = [0] * 8\n    kept = []\n    for group in groups:\n        lens[:2] = group\n"
        "        kept.append(lens[:2])\n    return kept\n",
        "import torch\n\n\ndef f(groups, n):\n    rows = torch.zeros(len(groups), n)\n    lens = torch.zeros(n)\n    for i, g in enumerate(groups):\n"
        "        lens[:n] = g\n        rows[i] = lens[:n]\n    return rows\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef f(groups, capacity):\n    scratch = torch.zeros(capacity + 1, dtype=torch.int32)\n    plans = []\n"
            "    for lens in groups:\n        n = len(lens)\n        scratch[1 : n + 1] = torch.tensor(lens).cumsum(0)\n"
            '        plans.append({"cu_seqlens": scratch[: n + 1], "max_seqlen": max(lens)})\n    return plans\n',
            rows=(10,),
            fixed="import torch\n\n\ndef f(groups, capacity):\n    scratch = torch.zeros(capacity + 1, dtype=torch.int32)\n    plans = []\n"
            "    for lens in groups:\n        n = len(lens)\n        scratch[1 : n + 1] = torch.tensor(lens).cumsum(0)\n"
            '        plans.append({"cu_seqlens": scratch[: n + 1].clone(), "max_seqlen": max(lens)})\n    return plans\n',
        ),
        Invalid(
            "class Draft:\n    def build(self, seq_lens, steps):\n        metadata = []\n        for step in range(steps):\n"
            "            self.seq_lens[: len(seq_lens)].copy_(seq_lens + step)\n"
            "            metadata.append(Metadata(seq_lens=self.seq_lens[: len(seq_lens)]))\n        return metadata\n",
            rows=(6,),
        ),
    ),
    fixable=True,
)
