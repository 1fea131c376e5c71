"""Segment lengths come from boundaries by subtracting the wrong slice.

### What it does
Finds `cu_seqlens[1:] - cu_seqlens[:1]` and its kin: a difference of two slices of the same boundaries that does not subtract from
each boundary the one before it, used as lengths; the largest difference of lengths that were not cumulated yet; and the largest
boundary, given as `max_seqlen`.

### Why is this bad?
`cu_seqlens[:1]` is the single number 0, so it broadcasts: the "lengths" are the boundaries themselves, and their maximum is the
total number of rows. Kernels then size their tiles for one huge segment; memory and time explode, or the result is wrong.

### Example
```python
max_seqlen = (cu_seqlens[1:] - cu_seqlens[:1]).max()
```

### Use instead
```python
max_seqlen = (cu_seqlens[1:] - cu_seqlens[:-1]).max()
```

### Fix safety
Unsafe: the computed lengths change, which is the purpose.

### References
- [flash-attention: variable-length interface](https://github.com/Dao-AILab/flash-attention)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Pool, Term
from shapecheck.codemods.findings import Finding, Fix, Replace
from shapecheck.codemods.queries.kinds import kind_of, kind_of_role
from shapecheck.codemods.queries.rewriting import with_index
from shapecheck.codemods.queries.together import groups
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View

# What each wrong pair of slices gives.
_WRONG = {
    ("1:", ":1"): "subtracts only the first boundary, so these are no segment lengths",
    (":-1", "1:"): "subtracts each boundary from the one before it, so these lengths are negative",
}


def check(view: View) -> Iterator[Finding]:
    """VL401."""
    pool = view.module.pool
    first, last = view.function.node.lineno, view.function.node.end_lineno or 0
    for term in pool.by_op.get("Sub", ()):
        left, right = plain(term.args[0]), plain(term.args[1])
        if left.op != "item" or right.op != "item" or left.args[0] is not right.args[0]:
            continue
        reason = _WRONG.get((_slice(left.args[1]), _slice(right.args[1])))
        node = term.node
        if reason is None or not isinstance(node, ast.BinOp) or not first <= node.lineno <= last:
            continue
        if _is_boundaries(view, left) and _measures(view, term):
            base = ast.unparse(node.left.value) if isinstance(node.left, ast.Subscript) else "cu_seqlens"
            good = f"{base}[1:] - {base}[:-1]"
            yield view.finding(RULE, node, f"`{ast.unparse(node)}` {reason}; use `{good}`", fix=_fix(view, node, good))
    for longest in pool.by_op.get("max", ()):
        of = plain(longest.args[0])
        node = of.node
        if (
            of.op == "diff"
            and isinstance(node, ast.Call)
            and first <= node.lineno <= last
            and _is_cumulated(pool, of.args[0])
        ):
            yield view.finding(
                RULE,
                node,
                f"`{ast.unparse(node)}` takes differences of lengths: they are cumulated elsewhere, so they are no boundaries; "
                "take the maximum of the lengths themselves",
                notes=[(of.args[0].node, "lengths")],
            )

    yield from _undifferenced(view)


def _undifferenced(view: View) -> Iterator[Finding]:
    """Maxima of the boundaries themselves."""
    reported: set[Term] = set()
    for group in groups(view) if "max" in view.module.pool.by_op else ():
        for bounds, longest in (group.side("q"), group.side("k")):
            largest = None if longest is None else plain(longest.term)
            if bounds is None or longest is None or largest is None or largest in reported:
                continue
            if largest.op == "max" and len(largest.args) == 1 and plain(largest.args[0]) is plain(bounds.term):
                reported.add(largest)
                yield view.finding(
                    RULE,
                    longest.node,
                    f"{_called(longest)} is the largest boundary{view.line(largest.node)}, the number of all rows; the longest segment is "
                    "the largest difference of neighbouring boundaries",
                    notes=[(largest.node, "maximum of boundaries")],
                )


def _called(longest: Argument) -> str:
    text = written(longest.node)
    return f"`{longest.name}`" if text == "a value" else text


def _slice(index: Term) -> str:
    """`1:`, `:-1` and `:1` as such; empty for every other index."""
    if index.op != "slice" or any(part.op != "const" for part in index.args) or index.args[2].value is not None:
        return ""
    start, end = index.args[0].value, index.args[1].value
    return f"{start or ''}:{'' if end is None else end}"


def _is_boundaries(view: View, part: Term) -> bool:
    base = part.args[0]
    if bounds_of(base) is not None:
        return True
    written = part.node.value if isinstance(part.node, ast.Subscript) else part.node
    kind = None if written is None else kind_of(base, written, view.catalogue)
    return kind is not None and kind.name == "bounds"


def _measures(view: View, difference: Term) -> bool:
    """Whether a difference is used as lengths: its maximum is taken, rows are split or repeated by it, or it is called so."""
    pool = view.module.pool
    if any(plain(longest.args[0]) is difference for longest in pool.by_op.get("max", ())):
        return True
    for op in ("repeat_interleave", "split"):
        if any(plain(user.args[1]) is difference for user in pool.by_op.get(op, ())):
            return True
    for binding in view.bindings:
        if plain(binding.value) is difference and view.catalogue.role_of(binding.target.rpartition(".")[2]) == "lens":
            return True
    return any(
        plain(argument.term) is difference and (role.startswith("lens") or kind_of_role(role) == "max")
        for consumer in view.consumers
        for role, argument in consumer.roles.items()
    )


def _is_cumulated(pool: Pool, term: Term) -> bool:
    lens = plain(term)
    return bounds_of(lens) is None and any(plain(total.args[0]) is lens for total in pool.by_op.get("cumsum", ()))


def _fix(view: View, node: ast.BinOp, good: str) -> Fix | None:
    """Each side gets the other slice, where both are written here."""
    edits = []
    for side, index in ((node.left, "1:"), (node.right, ":-1")):
        if not isinstance(side, ast.Subscript) or not isinstance(side.slice, ast.Slice):
            return None
        if ast.unparse(side.slice) != index:
            edits.append(Replace(view.source.span(side), with_index(view, side, index)))
    return view.fix(f"Replace with `{good}`", *edits)


RULE = Rule(
    "VL401",
    "wrong-difference",
    "stable",
    __doc__,
    check,
    valid=(
        "def f(cu_seqlens):\n    return (cu_seqlens[1:] - cu_seqlens[:-1]).max()\n",
        "def f(x, cu_seqlens):\n    return x[1:] - cu_seqlens[:1]\n",
        "def f(cu_seqlens):\n    local = cu_seqlens[1:] - cu_seqlens[:1]\n    return local\n",
        "def f(times, seq_lens):\n    return (times[1:] - times[:1]).max()\n",
        "def f(attend, x, cu_seqlens):\n    return attend(x, cu_seqlens=cu_seqlens, max_seqlen=cu_seqlens[-1])\n",
        "def f(cu_seqlens):\n    return (cu_seqlens[:-1] - cu_seqlens[1:]).all()\n",
    ),
    invalid=(
        Invalid(
            "def f(cu_seqlens):\n    return (cu_seqlens[1:] - cu_seqlens[:1]).max()\n",
            rows=(2,),
            fixed="def f(cu_seqlens):\n    return (cu_seqlens[1:] - cu_seqlens[:-1]).max()\n",
        ),
        Invalid(
            "import torch\n\n\ndef f(x, cu_seqlens):\n"
            "    starts, ends = cu_seqlens[:1], cu_seqlens[1:]\n"
            "    lens = ends - starts\n"
            "    return torch.split(x, lens.tolist())\n",
            rows=(6,),
        ),
        Invalid(
            "def f(meta):\n    meta.max_seqlen = int((meta.cu_seqlens[:-1] - meta.cu_seqlens[1:]).max())\n",
            rows=(2,),
            fixed="def f(meta):\n    meta.max_seqlen = int((meta.cu_seqlens[1:] - meta.cu_seqlens[:-1]).max())\n",
        ),
        Invalid(
            "def f(attend, x, cu_seqlens):\n"
            "    return attend(x, cu_seqlens=cu_seqlens, max_seqlen=int(cu_seqlens.max()))\n",
            rows=(2,),
        ),
        Invalid(
            "import torch\n\n\ndef f(lens):\n"
            "    cu_seqlens = torch.nn.functional.pad(lens.cumsum(0), (1, 0))\n"
            "    return cu_seqlens, torch.diff(lens).max()\n",
            rows=(6,),
        ),
    ),
    fixable=True,
)
