"""Boundaries or maxima are divided by the number of ranks twice.

### What it does
Reports a division by a number by which the lengths were already divided, also where a helper of the same file did that.

### Why is this bad?
The boundaries then describe a fraction of the rows that a rank holds; the rest of its rows is never attended.

### Example
```python
lens = lens // world_size
cu_seqlens = F.pad(lens.cumsum(0), (1, 0)) // world_size
```

### Use instead
```python
lens = lens // world_size
cu_seqlens = F.pad(lens.cumsum(0), (1, 0))
```

### Fix safety
Unsafe: the computed boundaries change, which is the purpose.

### References
- [ring-flash-attention](https://github.com/zhuzilin/ring-flash-attention)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding, Fix, Replace
from shapecheck.codemods.queries.kinds import kind_of_role
from shapecheck.codemods.queries.wording import value
from shapecheck.codemods.queries.words import words
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

# Sizes by which a grid is divided once for each of its axes.
_SPATIAL = {"merge", "patch", "spatial", "stride", "temporal", "kernel", "pool", "factor", "ratio", "scale", "size_2d"}


def check(view: View) -> Iterator[Finding]:
    """VL502."""
    first, last = view.function.node.lineno, view.function.node.end_lineno or 0
    for outer in view.module.pool.by_op.get("FloorDiv", ()):
        node = outer.node
        if not isinstance(node, ast.BinOp | ast.AugAssign | ast.Call) or not first <= node.lineno <= last:
            continue
        inner = _already_divided(view, outer)
        if inner is None or outer.args[1].op == "const" or _is_spatial(outer.args[1]):
            continue
        yield view.finding(
            RULE,
            node,
            f"this divides by {value(outer.args[1])}, but the lengths were already divided by it{view.line(inner.node)}",
            notes=[(inner.node, "the first division")],
            fix=_undivided(view, node),
        )


def _already_divided(view: View, outer: Term) -> Term | None:
    """The first division of what is divided again: boundaries, or the maximum of lengths."""
    term = plain(outer.args[0])
    divisor: Term = outer.args[1]
    if term.op == "FloorDiv" and term.args[1] is divisor and _is_called_boundaries(view, outer):
        return term
    if term.op == "max" and len(term.args) == 1:
        return _division(term.args[0], divisor)
    bounds = bounds_of(term)
    if bounds is None or bounds.kind != "lens":
        return None
    if bounds.divisor is divisor:
        return _division(term, divisor)
    return _division(bounds.source, divisor)


def _is_called_boundaries(view: View, value: Term) -> bool:
    named = [(view.catalogue.role_of(binding.target.rpartition(".")[2]), binding.value) for binding in view.bindings]
    named += [(role, argument.term) for consumer in view.consumers for role, argument in consumer.roles.items()]
    return any(plain(term) is value and kind_of_role(role) is not None for role, term in named)


def _division(term: Term, divisor: Term) -> Term | None:
    term = plain(term)
    if term.op == "each":
        term = plain(term.args[0])
    return term if term.op == "FloorDiv" and term.args[1] is divisor else None


def _is_spatial(term: Term) -> bool:
    return any(
        not _SPATIAL.isdisjoint(words(str(name)))
        for inner in term.walk()
        if inner.op in {"attr", "parameter", "global"}
        for name in inner.args
    )


def _undivided(view: View, node: ast.AST) -> Fix | None:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv):
        return None
    return view.fix("Drop the second division", Replace(view.source.span(node), view.source.code(node.left)))


RULE = Rule(
    "VL502",
    "boundaries-divided-twice",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef f(seq_lens, tp_size, cp_size):\n"
        "    seq_lens = seq_lens // cp_size\n"
        "    return torch.nn.functional.pad(seq_lens.cumsum(0), (1, 0)) // tp_size\n",
        "import torch\n\n\ndef f(grid, merge_size):\n"
        "    seq_lens = (grid[:, 1] * grid[:, 2]) // merge_size\n"
        "    return torch.nn.functional.pad(seq_lens.cumsum(0), (1, 0)) // merge_size\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef share(seq_lens, world):\n    return seq_lens // world\n\n\ndef f(seq_lens, world):\n"
            "    mine = share(seq_lens, world)\n"
            "    return torch.nn.functional.pad(mine.cumsum(0), (1, 0)) // world\n",
            rows=(10,),
            fixed="import torch\n\n\ndef share(seq_lens, world):\n    return seq_lens // world\n\n\ndef f(seq_lens, world):\n"
            "    mine = share(seq_lens, world)\n"
            "    return torch.nn.functional.pad(mine.cumsum(0), (1, 0))\n",
        ),
        Invalid(
            "class A:\n    def mine(self, cu_seqlens):\n        return cu_seqlens // self.world\n\n"
            "    def f(self, x, cu_seqlens):\n        cu_seqlens = self.mine(cu_seqlens)\n"
            "        return self.attend(x, cu_seqlens=self.mine(cu_seqlens))\n",
            rows=(7,),
            fixed="class A:\n    def mine(self, cu_seqlens):\n        return cu_seqlens // self.world\n\n"
            "    def f(self, x, cu_seqlens):\n        cu_seqlens = self.mine(cu_seqlens)\n"
            "        return self.attend(x, cu_seqlens=self.mine(cu_seqlens))\n",
        ),
        Invalid(
            "def f(seq_lens, world):\n"
            "    seq_lens = [n // world for n in seq_lens]\n"
            "    longest = max(seq_lens) // world\n"
            "    return seq_lens, longest\n",
            rows=(3,),
            fixed="def f(seq_lens, world):\n    seq_lens = [n // world for n in seq_lens]\n    longest = max(seq_lens)\n    return seq_lens, longest\n",
        ),
    ),
    fixable=True,
)
