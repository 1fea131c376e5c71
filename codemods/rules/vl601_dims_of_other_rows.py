"""A call passes values of different rows for axes that its signature calls by one name.

### What it does
Takes every function of the project whose parameters carry [jaxtyping](https://docs.kidger.site/jaxtyping/) annotations, in
whatever file, as a consumer: arguments for axes of the same name must hold the same rows. Reports calls where one of them
certainly does not: a part is missing, the order differs, or only one of the two was padded, cut, filtered or sharded.

### Why is this bad?
`Float[Tensor, "S C"]` and `Int[Tensor, "S"]` promise one row of the second for each row of the first. Where sizes differ, the
call fails at run time if a checker is on, and deep inside a kernel if not; where they happen to agree, rows get the values of
other rows.

### Example
```python
def route(x: Float[Tensor, "S C"], expert: Int[Tensor, "S"]): ...


x = torch.cat([text, image])
route(x, torch.zeros(len(image)))
```

### Use instead
```python
x = torch.cat([text, image])
route(x, torch.cat([torch.ones(len(text)), torch.zeros(len(image))]))
```

### Fix safety
No fix.

### References
- [jaxtyping: array annotations](https://docs.kidger.site/jaxtyping/api/array/)
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from shapecheck.codemods.compare import Difference, difference, worlds
from shapecheck.codemods.contracts import Parameter, Signature
from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import lens_of
from shapecheck.codemods.engine.describe.rows import Part, rows_of
from shapecheck.codemods.engine.describe.tags import per_row_of
from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.axes import axis_of, cat_axis
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL601."""
    if not view.contracts.signatures:
        return
    for call in view.calls:
        signature = view.signature_of(call)
        if signature is not None:
            yield from _parted(view, call, signature)


@dataclass(frozen=True)
class _Given:
    parameter: Parameter
    axis: int  # of the rows; -1 for boundaries
    dim: str
    term: Term
    node: ast.AST


def _parted(view: View, call: Call, signature: Signature) -> Iterator[Finding]:
    given = list(_given(call, signature))
    for at, first in enumerate(given):
        for second in given[at + 1 :]:
            if first.dim != second.dim or first.term is second.term:
                continue
            rows, meta = (second, first) if first.axis < 0 else (first, second)
            found = _difference(rows, meta)
            if rows.axis >= 0 and found is not None:
                yield _finding(view, call, signature, rows, meta, found)
                return


def _given(call: Call, signature: Signature) -> Iterator[_Given]:
    """The arguments whose first axis (after axes of size 1) has a name."""
    positional = [parameter for parameter in signature.parameters if parameter.positional]
    for place, parameter in enumerate(positional):
        if place < len(call.args) and call.args[place] is not None:
            node = call.arg_node(place)
            yield from _one(parameter, call.args[place], node)
    for parameter in signature.parameters:
        if parameter.name in call.kwargs:
            yield from _one(parameter, call.kwargs[parameter.name], call.arg_node(None, parameter.name))


def _one(parameter: Parameter, term: Term | None, node: ast.AST | None) -> Iterator[_Given]:
    if parameter.dims is None or term is None or node is None:
        return
    if parameter.covers is not None:
        yield _Given(parameter, -1, parameter.covers, term, node)
        return
    for axis, dim in enumerate(parameter.dims):
        if dim.isidentifier() and dim != "_":
            yield _Given(parameter, axis, dim, term, node)
        if dim != "1":
            return


def _difference(rows: _Given, meta: _Given) -> Difference | None:
    found = None
    for row_term, meta_term in worlds(rows.term, meta.term):
        row_parts, meta_parts = _parts(row_term, rows), _parts(meta_term, meta)
        if row_parts is None or meta_parts is None:
            return None
        here = difference(row_parts, meta_parts)
        if here is None or not _on_axis(here, rows if here.rows_changed else meta):
            return None  # a difference in some worlds only: conditions may exclude one another
        found = here
    return found


def _parts(term: Term, given: _Given) -> tuple[Part, ...] | None:
    if given.axis < 0:
        bounds = bounds_of(term)
        lens = (
            lens_of(bounds.source) if bounds is not None and bounds.kind == "lens" and bounds.divisor is None else None
        )
        return (
            lens.parts
            if lens is not None and lens.kind == "parts" and bounds is not None and not bounds.appended
            else None
        )
    per_row = per_row_of(term)
    if per_row is not None:
        return per_row.parts
    found = rows_of(term)
    if not found.known or (len(found.parts) > 1 and found.changes):
        return None
    if len(found.parts) > 1 and cat_axis(term, len(given.parameter.dims or ())) not in {given.axis, None}:
        return None
    return found.flat


def _on_axis(found: Difference, changed: _Given) -> bool:
    if found.change is None:
        return True
    if changed.axis < 0:
        return True
    axis = axis_of(found.change, len(changed.parameter.dims or ()))
    return axis is not None and axis == changed.axis


_HOW = {
    "pad": "padded",
    "slice": "cut",
    "pick": "reindexed",
    "filter": "filtered",
    "shard": "sharded",
    "sort": "sorted",
    "flip": "reversed",
    "roll": "rolled",
    "repeat": "repeated",
    "unpad": "unpadded",
}


def _finding(view: View, call: Call, signature: Signature, rows: _Given, meta: _Given, found: Difference) -> Finding:
    row_name, meta_name = rows.parameter.name, meta.parameter.name
    part = ast.unparse(found.part.root.node) if isinstance(found.part.root.node, ast.expr) else None
    if isinstance(found.part.root.node, ast.arg):
        part = found.part.root.node.arg
    shown = f"`{part}`" if part is not None else "a part"
    match found.kind:
        case "missing":
            how = f"`{meta_name}` has no rows for {shown}"
        case "extra":
            how = f"`{row_name}` has no rows for {shown}, which `{meta_name}` has"
        case "order":
            how = "their parts come in different orders"
        case _:
            changed, other = (row_name, meta_name) if found.rows_changed else (meta_name, row_name)
            verb = _HOW.get(found.change.kind, "changed") if found.change is not None else "changed"
            where = view.line(found.change.term.node) if found.change is not None else ""
            how = f"`{changed}` was {verb}{where} and `{other}` was not"
    return view.finding(
        RULE,
        meta.node,
        f"`{signature.called}` calls one axis of `{row_name}` and `{meta_name}` by the same name, `{rows.dim}`, but {how}",
        notes=[
            (rows.node, f"`{row_name}`"),
            (meta.term.node, f"`{meta_name}` is made here"),
            (found.change.term.node if found.change is not None else None, "changed here"),
        ],
    )


_HEAD = """import torch
from jaxtyping import Float, Int
from torch import Tensor


def route(x: Float[Tensor, "S C"], expert: Int[Tensor, "S"], scale: Float[Tensor, "C"]) -> Float[Tensor, "S C"]:
    return x[expert] * scale


"""

RULE = Rule(
    "VL601",
    "dims-of-other-rows",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def run(text, image, scale):\n    x = torch.cat([text, image])\n"
        "    expert = torch.cat([torch.ones(len(text)), torch.zeros(len(image))])\n    return route(x, expert, scale)\n",
        _HEAD + "def run(x, expert, scale, n):\n    return route(x[:, :n], expert, scale[:n])\n",
        _HEAD + "def run(x, expert, scale, n):\n    return route(x[:n], expert[:n], scale)\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def run(text, image, scale):\n    x = torch.cat([text, image])\n"
            "    expert = torch.zeros(len(image))\n    return route(x, expert, scale)\n",
            rows=(13,),
        ),
        Invalid(
            _HEAD
            + "def run(x, expert, scale, n):\n    x = x[:n]\n    y = torch.zeros(x.shape[0])\n    return route(x[1:], y, scale)\n",
            rows=(13,),
        ),
    ),
)
