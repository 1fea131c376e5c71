"""Segments are cut only where positions decrease, so that segments of one token are lost.

### What it does
Finds boundaries derived from position ids with a strict comparison, `position_ids[1:] < position_ids[:-1]`, in its vector, loop and
comprehension forms.

### Why is this bad?
A segment of one token has position 0 and is followed by another 0. The positions do not decrease there, so the two segments
become one and attend to each other.

### Example
```python
cuts = (position_ids[1:] < position_ids[:-1]).nonzero() + 1
```

### Use instead
```python
cuts = (position_ids[1:] <= position_ids[:-1]).nonzero() + 1
```

### Fix safety
Unsafe: other segments are found, which is the purpose.

### References
- [Position ids of packed samples](https://huggingface.co/blog/packing-with-FA2)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding, Fix, Replace
from shapecheck.codemods.queries.names import origin, outer_name
from shapecheck.codemods.queries.neighbours import difference_of, neighbours
from shapecheck.codemods.queries.rewriting import or_equal
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_LOCATE = {"nonzero", "where", "argwhere", "flatnonzero", "cumsum"}
_THROUGH = {"cast", "host", "moved", "copy", "view", "pad", "cat", "list", "tuple", "elementwise", "typed_like"}


def check(view: View) -> Iterator[Finding]:
    """VL107."""
    seen: set[Term] = set()
    for drop in _drops(view):
        positions = _compared(drop) or _with_previous(drop, view)
        if positions is None or drop in seen or drop.node is None:
            continue
        name = outer_name(origin(positions))
        if name is None or view.catalogue.role_of(name) != "positions":
            continue
        seen.add(drop)
        yield view.finding(
            RULE,
            drop.node,
            f"segments are cut only where `{name}` decreases, so a segment of one token (position 0 before another 0) is "
            "joined with the next one; compare with `<=`, or cut where the position is 0",
            fix=_fix(view, drop.node),
        )


def _drops(view: View) -> Iterator[Term]:
    """The comparisons whose true places become boundaries."""
    for call in view.calls:
        if call.name in _LOCATE:
            source = call.receiver if call.receiver is not None else (call.args[0] if len(call.args) == 1 else None)
            if source is not None:
                yield from _comparisons(source)
        elif call.name == "append" and call.context:
            condition, holds = call.context[-1]
            if holds:
                yield from _comparisons(condition)
    for binding in view.bindings:
        value = plain(binding.value)
        if value.op == "item" and plain(value.args[0]).op == "arange":
            yield from _comparisons(plain(value.args[1]))
        elif value.op == "each":
            for test in value.args[2:]:
                yield from _comparisons(test)


def _comparisons(term: Term) -> Iterator[Term]:
    if term.op in {"Lt", "Gt"}:
        yield term
    elif term.op in _THROUGH:
        for child in term.children():
            yield from _comparisons(child)


def _compared(drop: Term) -> Term | None:
    """The values, if the comparison holds where one is less than the one before it."""
    less, more = drop.args if drop.op == "Lt" else reversed(drop.args)
    less, more = plain(less), plain(more)
    return difference_of(less) if more.is_const(0) else neighbours(less, more)


def _with_previous(drop: Term, view: View) -> Term | None:
    """The values of a loop that compares each with the one that it kept of the round before."""
    less, more = drop.args if drop.op == "Lt" else reversed(drop.args)
    if more.op != "round" or less.op != "elem":
        return None
    kept = any(
        binding.target == more.args[0] and binding.value is less and binding.context for binding in view.bindings
    )
    positions: Term = less.args[0]
    return positions if kept else None


def _fix(view: View, node: ast.AST) -> Fix | None:
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    code = or_equal(view, node)
    if code is None:
        return None
    sign = "<=" if isinstance(node.ops[0], ast.Lt) else ">="
    return view.fix(f"Compare with `{sign}`", Replace(view.source.span(node), code))


RULE = Rule(
    "VL107",
    "strict-decrease-as-boundary",
    "stable",
    __doc__,
    check,
    valid=(
        "def f(position_ids, cu_seqlens):\n    return (position_ids[1:] <= position_ids[:-1]).nonzero() + 1\n",
        "def f(position_ids, cu_seqlens):\n    return bool((position_ids[1:] < position_ids[:-1]).any())\n",
        "def f(scores, cu_seqlens):\n    return (scores[1:] < scores[:-1]).nonzero()\n",
    ),
    invalid=(
        Invalid(
            "def f(position_ids):\n    pos = position_ids.view(-1)\n    drop = pos[1:] < pos[:-1]\n"
            "    cu_seqlens = drop.nonzero().view(-1) + 1\n    return cu_seqlens\n",
            rows=(3,),
            fixed="def f(position_ids):\n    pos = position_ids.view(-1)\n    drop = pos[1:] <= pos[:-1]\n"
            "    cu_seqlens = drop.nonzero().view(-1) + 1\n    return cu_seqlens\n",
        ),
        Invalid(
            "import torch\n\n\ndef f(batch):\n    cu_seqlens = torch.where(torch.diff(batch['position_ids'][0]) < 0)[0] + 1\n    return cu_seqlens\n",
            rows=(5,),
        ),
        Invalid(
            "def f(position_ids):\n    cu_seqlens = [0]\n    for i in range(1, len(position_ids)):\n"
            "        if position_ids[i - 1] > position_ids[i]:\n            cu_seqlens.append(i)\n    return cu_seqlens\n",
            rows=(4,),
        ),
        Invalid(
            "def f(position_ids):\n"
            "    cu_seqlens = [i + 1 for i in range(len(position_ids) - 1) if position_ids[i + 1] < position_ids[i]]\n"
            "    for i, (a, b) in enumerate(zip(position_ids, position_ids[1:])):\n"
            "        if b < a:\n            cu_seqlens.append(i + 1)\n    return cu_seqlens\n",
            rows=(2, 4),
        ),
    ),
    fixable=True,
)
