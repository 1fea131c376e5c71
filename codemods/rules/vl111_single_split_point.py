"""A stream of many segments is split at its first inner boundary only.

### What it does
Reports a tensor that is cut in two at `cu_seqlens[1]`, `x[: cu_seqlens[1]]` and `x[cu_seqlens[1] :]`, where nothing says that there are
two segments.

### Why is this bad?
The boundaries of a batch have one entry for each segment. With more than two segments the second piece holds all the others, and they
attend to each other.

### Example
```python
first, second = x[: cu_seqlens[1]], x[cu_seqlens[1] :]
```

### Use instead
```python
parts = [x[start:end] for start, end in itertools.pairwise(cu_seqlens.tolist())]
```

### Fix safety
No fix: what is done with the two pieces has to be done for every segment.

### References
- [itertools.pairwise](https://docs.python.org/3/library/itertools.html#itertools.pairwise)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.everything import values
from shapecheck.codemods.queries.names import origin, outer_name
from shapecheck.codemods.queries.slots import BOUNDS
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL111."""
    if not any(isinstance(node, ast.Subscript) and _is_one(node.slice) for node in view.nodes):
        return
    heads: dict[tuple[Term, Term], Term] = {}
    tails: dict[tuple[Term, Term], Term] = {}
    other_uses: set[Term] = set()
    for term in values(view):
        if term.op in {"chunk", "split"} and (cut := _only_cut(term)) is not None:
            heads[term.args[0], cut] = tails[term.args[0], cut] = term
        if term.op != "item":
            continue
        base, index = term.args
        for part in index.args if index.op == "tuple" else (index,):
            if isinstance(part, Term) and part.op == "slice":
                low, high, _ = part.args
                if (low.is_const(None) or low.is_const(0)) and (cut := _first_inner(high)) is not None:
                    heads[base, cut] = term
                elif high.is_const(None) and (cut := _first_inner(low)) is not None:
                    tails[base, cut] = term
        if not any(index.is_const(known) for known in (0, 1, -1)):
            other_uses.add(base)
    for (base, bounds), head in heads.items():
        tail = tails.get((base, bounds))
        if tail is not None and bounds not in other_uses and _is_batch(bounds, view):
            name = outer_name(origin(bounds)) or "cu_seqlens"
            yield view.finding(
                RULE,
                head.node or view.function.node,
                f"this stream is split at `{name}[1]` only, so every segment after the first ends up in one piece"
                f"{view.line(tail.node)}; cut at each boundary",
                notes=[(tail.node, "all segments after the first")],
            )
            return


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


def _first_inner(term: Term) -> Term | None:
    """`b` if the term is `b[1]`."""
    term = plain(term)
    return plain(term.args[0]) if term.op == "item" and term.args[1].is_const(1) else None


def _only_cut(term: Term) -> Term | None:
    """`b` for `tensor_split(x, [b[1]])` and `split(x, [b[1], n - b[1]])`."""
    sizes = plain(term.args[1])
    if sizes.op not in {"list", "tuple"} or not sizes.args or any(part.op == "star" for part in sizes.args):
        return None
    cut = _first_inner(sizes.args[0])
    if term.op == "chunk":
        return cut if len(sizes.args) == 1 else None
    rest = plain(sizes.args[1]) if len(sizes.args) == 2 else None
    return cut if rest is not None and rest.op == "Sub" and _first_inner(rest.args[1]) is cut else None


def _is_batch(bounds: Term, view: View) -> bool:
    """Whether the value is boundaries, of any number of segments for all that the function knows."""
    if bounds.op in {"item", "attr", "parameter"}:
        name = outer_name(bounds)
        if name is None or view.catalogue.role_of(name) not in BOUNDS:
            return False
    else:
        found = bounds_of(bounds)
        if found is None or found.source.op == "list":
            return False
    return not any(bounds in set(term.walk()) for term in _tests(view))


def _tests(view: View) -> Iterator[Term]:
    """The conditions of the function: one of them may count the segments."""
    for event in view.function.events:
        for condition, _ in event.context:
            if condition.op != "loop":
                yield condition
    yield from view.function.asserted


RULE = Rule(
    "VL111",
    "single-split-point",
    "stable",
    __doc__,
    check,
    valid=(
        "def f(x, cu_seqlens):\n    assert cu_seqlens.numel() == 3\n    return x[: cu_seqlens[1]], x[cu_seqlens[1] :]\n",
        "def f(x, cu_seqlens):\n    return [x[s:e] for s, e in zip(cu_seqlens[:-1], cu_seqlens[1:])]\n",
        "def f(x, cu_seqlens):\n    a, b = x[: cu_seqlens[1]], x[cu_seqlens[1] : cu_seqlens[2]]\n    return a, b, x[cu_seqlens[1] :]\n",
        "def f(x, window):\n    return x[: window[1]], x[window[1] :]\n",
    ),
    invalid=(
        Invalid(
            "def f(attend, q, k, cu_seqlens):\n    head, tail = q[:, : cu_seqlens[1]], q[:, cu_seqlens[1] :]\n"
            "    return attend(head, k), attend(tail, k)\n",
            rows=(2,),
        ),
        Invalid(
            "def f(meta, x, heads):\n    middle = int(meta.cu_seqlens[1])\n    first = heads(x[:middle])\n"
            "    return first + heads(x[middle:])\n",
            rows=(3,),
        ),
    ),
)
