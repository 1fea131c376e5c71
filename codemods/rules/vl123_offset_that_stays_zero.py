"""An offset for the rows so far is 0 in every round of a loop.

### What it does

Reports two forms: an offset that each round sets to 0 before it is used, so that what it was increased by is never read; and the end of
the previous segment that is set to 0 before a loop and never moves.

### Why is this bad?

The first segment is right. Every later one is placed as if it were the first.

### Example

```python
previous = 0
for end in ends:
    position_ids[end:] -= end - previous
```

### Use instead

```python
previous = 0
for end in ends:
    position_ids[end:] -= end - previous
    previous = end
```

### Fix safety

No fix: where the offset has to move depends on what it counts.

### References

- [itertools.pairwise](https://docs.python.org/3/library/itertools.html#itertools.pairwise)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.words import words
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_PREVIOUS = {"prev", "previous"}
_LENGTHS = {"len", "numel", "size", "shape"}


def check(view: View) -> Iterator[Finding]:
    """VL123."""
    loops = [node for node in view.nodes if isinstance(node, ast.For | ast.While)]
    for loop in loops:
        yield from _set_back(view, loop)
    if loops:
        yield from _never_moved(view, loops)


def _set_back(view: View, loop: ast.For | ast.While) -> Iterator[Finding]:
    """`start = 0` at the top of the body, `start += len(x)` below, and no read behind that."""
    for statement in loop.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=0)):
                pass
            case _:
                continue
        used = [node for node in view.nodes if isinstance(node, ast.Name) and node.id == name]
        grown = [node for node in loop.body if _grows(node, name) and _counts(node, view)]
        reads = [node for node in used if isinstance(node.ctx, ast.Load)]
        if len(grown) != 1 or grown[0].lineno < statement.lineno:
            continue
        last = grown[0]
        inside = [node for node in reads if statement.lineno < node.lineno < last.lineno]
        elsewhere = [
            node for node in reads if node.lineno > (last.end_lineno or last.lineno) or node.lineno < statement.lineno
        ]
        stores = [node for node in used if isinstance(node.ctx, ast.Store)]
        if inside and not elsewhere and len(stores) == 2:
            yield view.finding(
                RULE,
                statement,
                f"`{name}` is set to 0 in every round, so what it grows by{view.line(last)} is never read and each part starts at 0; set "
                "it to 0 before the loop",
                notes=[(last, "grows here, for nothing"), (inside[0], "always 0 here")],
            )


def _grows(node: ast.stmt, name: str) -> bool:
    match node:
        case ast.AugAssign(target=ast.Name(id=target), op=ast.Add()):
            return target == name
        case ast.Assign(targets=[ast.Name(id=target)], value=ast.BinOp(left=ast.Name(id=left), op=ast.Add())):
            return target == left == name
    return False


def _counts(node: ast.stmt, view: View) -> bool:
    """Whether a statement adds a number of rows, also by a name for one."""
    value = node.value if isinstance(node, ast.AugAssign | ast.Assign) else None
    if isinstance(value, ast.BinOp) and isinstance(node, ast.Assign):
        value = value.right
    if isinstance(value, ast.Name):
        bound = view.binding_of(value.id)
        value = None if bound is None else bound.value_node
    return value is not None and any(
        (isinstance(inner, ast.Attribute) and inner.attr in _LENGTHS)
        or (isinstance(inner, ast.Name) and inner.id in _LENGTHS)
        for inner in ast.walk(value)
    )


def _never_moved(view: View, loops: list[ast.For | ast.While]) -> Iterator[Finding]:
    """`previous = 0`, read in a loop as what comes before this round, and bound nowhere else."""
    for binding in view.bindings:
        if (
            not binding.value.is_const(0)
            or not isinstance(binding.node, ast.Assign)
            or _PREVIOUS.isdisjoint(words(binding.target))
        ):
            continue
        name = binding.target
        used = [node for node in ast.walk(view.function.node) if isinstance(node, ast.Name) and node.id == name]
        if sum(isinstance(node.ctx, ast.Store) for node in used) != 1 or _is_shared(view.function.node, name):
            continue
        for loop in loops:
            if loop.lineno < binding.node.lineno:
                continue
            read = next((node for node in ast.walk(loop) if _steps_from(node, name)), None)
            if read is not None:
                yield view.finding(
                    RULE,
                    read,
                    f"`{name}` is 0 in every round: it is set before the loop{view.line(binding.node)} and never moves; set it to the new "
                    "end at the end of each round",
                    notes=[(binding.node, "set once")],
                )
                break


def _is_shared(node: ast.AST, name: str) -> bool:
    """Whether a nested function may bind the name."""
    return any(isinstance(inner, ast.Nonlocal | ast.Global) and name in inner.names for inner in ast.walk(node))


def _steps_from(node: ast.AST, name: str) -> bool:
    """`end - previous`, `x[previous:end]`, `range(previous, end)`."""
    match node:
        case ast.BinOp(op=ast.Sub(), right=ast.Name(id=read)):
            return read == name
        case ast.Slice(lower=ast.Name(id=read), upper=ast.expr()):
            return read == name
        case ast.Call(func=ast.Name(id="range") | ast.Attribute(attr="arange"), args=[ast.Name(id=read), _, *_]):
            return read == name
    return False


RULE = Rule(
    "VL123",
    "offset-that-stays-zero",
    "stable",
    __doc__,
    check,
    valid=(
        "def f(position_ids, ends, cu_seqlens):\n    prev = 0\n    for end in ends:\n        position_ids[end:] -= end - prev\n"
        "        prev = end\n    return position_ids\n",
        "def f(samples, cu_seqlens):\n    spans = []\n    for sample in samples:\n        start = 0\n        for part in sample:\n"
        "            spans.append((start, len(part)))\n            start += len(part)\n    return spans\n",
        "def f(parts, cu_seqlens):\n    spans = []\n    for part in parts:\n        start = 0\n        start += len(part)\n"
        "        spans.append(start)\n    return spans\n",
        "def f(x, cu_seqlens, n):\n    prev = 0\n    width = n - prev\n    return [x[i : i + width] for i in cu_seqlens]\n",
    ),
    invalid=(
        Invalid(
            "def f(position_ids, ends, cu_seqlens):\n    prev = 0\n    for end in ends:\n        position_ids[end:] -= end - prev\n"
            "    return position_ids\n",
            rows=(4,),
        ),
        Invalid(
            "def f(samples, cu_seqlens):\n    spans = []\n    for part in samples:\n        start = 0\n"
            "        spans.append((start, len(part)))\n        start += len(part)\n    return spans\n",
            rows=(4,),
        ),
        Invalid(
            "def f(x, cu_seqlens):\n    pieces, previous_end = [], 0\n    for end in cu_seqlens[1:]:\n"
            "        pieces.append(x[previous_end:end])\n    return pieces\n",
            rows=(4,),
        ),
    ),
)
