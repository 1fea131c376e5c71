"""The tokens of a pack start anew, the boundaries or lengths go on from the pack before.

### What it does
Finds loops that fill lists, hand them out together when a pack is full, and then empty the token lists but not the list of
boundaries or lengths.

### Why is this bad?
From the second pack on the boundaries count the rows of all packs so far, and there are more segments than the pack holds.

### Example
```python
for doc in documents:
    if len(tokens) + len(doc) > size:
        yield tokens, cu_seqlens
        tokens = []
    tokens.extend(doc)
    cu_seqlens.append(cu_seqlens[-1] + len(doc))
```

### Use instead
```python
for doc in documents:
    if len(tokens) + len(doc) > size:
        yield tokens, cu_seqlens
        tokens, cu_seqlens = [], [0]
    tokens.extend(doc)
    cu_seqlens.append(cu_seqlens[-1] + len(doc))
```

### Fix safety
No fix: whether the boundaries are rebased elsewhere is not always visible.

### References
- [torch.nn.attention.varlen](https://docs.pytorch.org/docs/stable/nn.attention.varlen.html)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.slots import BOUNDS, LENS
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_CONVERSIONS = {
    "tensor",
    "as_tensor",
    "array",
    "asarray",
    "IntTensor",
    "LongTensor",
    "list",
    "tuple",
    "from_numpy",
    "copy",
}
_HANDED = {"append", "put", "add"}
_GROWING = {"append", "extend"}
_ROLES = BOUNDS | LENS | {"lens"}


def check(view: View) -> Iterator[Finding]:
    """VL160."""
    if not _ROLES & view.roles:
        return
    for loop in view.nodes:
        if not isinstance(loop, ast.For | ast.While):
            continue
        for test in ast.walk(loop):
            if isinstance(test, ast.If):
                yield from _flush(view, loop, test)


def _flush(view: View, loop: ast.For | ast.While, test: ast.If) -> Iterator[Finding]:
    emptied = {name: statement for statement in test.body for name in _emptied(statement)}
    if not emptied:
        return
    written = _written(loop)
    for statement in test.body:
        if isinstance(statement, ast.If | ast.For | ast.While) or statement in emptied.values():
            continue
        given = _handed_out(statement)
        lists = [name for name in emptied if name in given and _grows_beside(loop, test, name)]
        for name, (key, node) in given.items():
            roles = {view.catalogue.role_of(name), view.catalogue.role_of(key)}
            if not roles & _ROLES or name in written or name in emptied or not lists:
                continue
            if _starts_as_list(view, loop, name) and _grows_beside(loop, test, name):
                start = emptied[lists[0]]
                yield view.finding(
                    RULE,
                    node,
                    f"`{lists[0]}` starts anew for each pack{view.line(start)}, but `{name}` goes on from the pack before; let "
                    "it start anew there too",
                    notes=[(start, f"`{lists[0]}` starts anew here")],
                )


def _emptied(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement makes empty lists."""
    match statement:
        case ast.Assign(targets=[*targets], value=value):
            for target in targets:
                pairs = [(target, value)]
                if (
                    isinstance(target, ast.Tuple)
                    and isinstance(value, ast.Tuple)
                    and len(target.elts) == len(value.elts)
                ):
                    pairs = list(zip(target.elts, value.elts, strict=True))
                yield from (name.id for name, given in pairs if isinstance(name, ast.Name) and _is_empty(given))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="clear"))):
            yield name


def _is_empty(value: ast.expr) -> bool:
    match value:
        case ast.List(elts=[]) | ast.Call(func=ast.Name(id="list"), args=[]):
            return True
    return False


def _written(loop: ast.AST) -> set[str]:
    """The names that a loop assigns, or changes otherwise than by adding to their end."""
    found: set[str] = set()
    for node in ast.walk(loop):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method not in _GROWING:
                found.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                found.update(names)
    return found


def _handed_out(statement: ast.stmt) -> dict[str, tuple[str, ast.expr]]:
    """The names whose values leave in one yield, one dict, or one item of a list, as they are or as a tensor; with their keys."""
    value: ast.expr | None = None
    match statement:
        case ast.Expr(value=ast.Yield(value=given)):
            value = given
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method), args=[given])) if method in _HANDED:
            value = given
        case ast.Assign(value=ast.Dict() as given):
            value = given
    found: dict[str, tuple[str, ast.expr]] = {}
    items: list[tuple[str, ast.expr]] = []
    match value:
        case ast.Dict(keys=keys, values=values):
            names = [str(key.value) if isinstance(key, ast.Constant) else "" for key in keys]
            items = list(zip(names, values, strict=True))
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            items = [("", elt) for elt in elts]
        case ast.Call(args=args, keywords=keywords):
            items = [*(("", arg) for arg in args), *((keyword.arg or "", keyword.value) for keyword in keywords)]
    for key, item in items:
        inner = item
        while isinstance(inner, ast.Call) and inner.args and _callee(inner.func) in _CONVERSIONS:
            inner = inner.args[0]
        if isinstance(inner, ast.Name):
            found.setdefault(inner.id, (key, item))
    return found


def _callee(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _grows_beside(loop: ast.For | ast.While, test: ast.If, name: str) -> bool:
    """Whether every round adds to a list, outside of what happens when the pack is full."""
    for statement in loop.body:
        if statement is test:
            continue
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=found), attr=method))):
                if found == name and method in _GROWING:
                    return True
            case ast.AugAssign(target=ast.Name(id=found), op=ast.Add()) if found == name:
                return True
    return False


def _starts_as_list(view: View, loop: ast.AST, name: str) -> bool:
    """Whether the name is given one short list before the loop."""
    starts = [one for one in view.bindings if one.target == name and isinstance(one.value_node, ast.List)]
    return len(starts) == 1 and starts[0].value_node is not None and starts[0].node.lineno < loop.lineno  # type: ignore[attr-defined]


RULE = Rule(
    "VL160",
    "bounds-kept-across-packs",
    "stable",
    __doc__,
    check,
    valid=(
        "def f(docs, size):\n    tokens, cu_seqlens = [], [0]\n    for doc in docs:\n"
        "        if len(tokens) + len(doc) > size:\n            yield {'tokens': tokens, 'cu_seqlens': cu_seqlens}\n"
        "            tokens, cu_seqlens = [], [0]\n        tokens.extend(doc)\n"
        "        cu_seqlens.append(cu_seqlens[-1] + len(doc))\n",
        # The new boundaries only.
        "def f(docs, size):\n    tokens, cu_seqlens, start = [], [0], 0\n    for doc in docs:\n"
        "        if len(tokens) + len(doc) > size:\n            yield tokens, cu_seqlens[start:]\n"
        "            tokens, start = [], len(cu_seqlens) - 1\n        tokens.extend(doc)\n"
        "        cu_seqlens.append(cu_seqlens[-1] + len(doc))\n",
        # The tokens are written out, the boundaries once at the end.
        "def f(docs, size, sink):\n    tokens, cu_seqlens = [], [0]\n    for doc in docs:\n"
        "        if len(tokens) > size:\n            sink.append(tokens)\n            tokens = []\n        tokens.extend(doc)\n"
        "        cu_seqlens.append(cu_seqlens[-1] + len(doc))\n    return cu_seqlens\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef bins(docs, size):\n    tokens, positions = [], []\n    cu_seqlens = [0]\n    for doc in docs:\n"
            "        if tokens and len(tokens) + len(doc) > size:\n            yield {\n"
            "                'input_ids': torch.tensor(tokens),\n                'cu_seqlens': torch.tensor(cu_seqlens),\n"
            "            }\n            tokens, positions = [], []\n        tokens.extend(doc)\n"
            "        positions.extend(range(len(doc)))\n        cu_seqlens.append(cu_seqlens[-1] + len(doc))\n",
            rows=(11,),
        ),
        Invalid(
            "import numpy as np\n\n\ndef packs(docs, size):\n    out = []\n    ids, seqlens = [], []\n    for doc in docs:\n"
            "        ids += doc\n        seqlens.append(len(doc))\n        if len(ids) >= size:\n"
            "            out.append((np.array(ids), np.array(seqlens)))\n            ids = []\n    return out\n",
            rows=(11,),
        ),
        Invalid(
            "def packs(docs, size, Pack):\n    out = []\n    ids, bounds = [], [0]\n    for doc in docs:\n"
            "        if len(ids) + len(doc) > size:\n            out.append(Pack(ids=list(ids), cu_seqlens=list(bounds)))\n"
            "            ids.clear()\n        ids.extend(doc)\n        bounds.append(bounds[-1] + len(doc))\n"
            "    return out\n",
            rows=(6,),
        ),
    ),
)
