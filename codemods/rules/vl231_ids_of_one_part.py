"""Position ids cover one part of the rows, though the rows of another part were joined to them.

### What it does
Finds calls that take rows joined along their token axis from two values, with ids (`img_ids`, `position_ids`) that were made from the
shape of one of them only, or that are given for one of them while the ids of the other are never used.

### Why is this bad?
The rows behind the first part have no position of their own: broadcasting fails at best, and gives all of them the same phase at
worst.

### Example
```python
rows = torch.cat([latents, reference], dim=1)
model(hidden_states=rows, img_ids=grid_ids(latents.shape[1]))
```

### Use instead
```python
rows = torch.cat([latents, reference], dim=1)
ids = torch.cat([grid_ids(latents.shape[1]), grid_ids(reference.shape[1])])
model(hidden_states=rows, img_ids=ids)
```

### Fix safety
No fix.

### References
- [diffusers: FluxKontextPipeline](https://huggingface.co/docs/diffusers/api/pipelines/flux)
"""

import ast
import re
from collections.abc import Iterator

from shapecheck.codemods.compare import worlds
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.companions import Company, companies
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.queries.partings import first_round
from shapecheck.codemods.queries.words import words
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View

_IDS = re.compile(r"(?:img|image|video|vid|latent|pos|position|rope)_ids$")
_JOINS = {"cat", "list", "each", "append", "extend", "stack", "Add"}


def check(view: View) -> Iterator[Finding]:
    """VL231."""
    if "cat" not in view.module.pool.by_op:
        return
    for company in companies(view):
        if company.call is None:
            continue
        ids = [member for member in company.members if _IDS.search(member.name) is not None]
        for meta in ids:
            if any(other is not meta and _is_joined_from(other.term, meta.term) for other in company.members):
                continue  # the ids of all rows are given, too
            found = next(
                (one for rows in company.members if (one := _left_out(view, company, rows, meta)) is not None), None
            )
            if found is not None:
                joined, covered, other, why = found
                yield view.finding(
                    RULE,
                    meta.node,
                    f"the rows were joined from {named(view, covered)} and {named(view, other)}{view.line(joined.node)}, but `{meta.name}` "
                    f"covers {named(view, covered)} only{why}; join the ids of both",
                    notes=[(joined.node, "the rows are joined here"), (meta.term.node, "ids of one part")],
                )
                break


def _left_out(view: View, company: Company, rows: Argument, meta: Argument) -> tuple[Term, Term, Term, str] | None:
    """The join, the part that ids cover, the part that they leave out, and how one knows."""
    if rows is meta or "cat" not in {inner.op for inner in rows.term.walk()}:
        return None
    for given, ids in worlds(first_round(rows.term), first_round(meta.term), context=company.context):
        row_term = given.args[0] if given.op in {"cast", "moved"} else given
        if row_term.op != "cat" or not row_term.args[0].is_const(1) or len(row_term.args[1].few_items) != 2:
            continue
        first, second = row_term.args[1].args
        mine, others = _given(first), _given(second)
        if not mine - others or not others - mine:
            continue
        if (
            _made_from(ids) & (mine - others)
            and not _given(ids) & (others - mine)
            and not any(inner.op in _JOINS for inner in ids.walk())
        ):
            return row_term, first, second, ", from whose shape it was made"
        unused = _unused_ids(view, ids, first, second)
        if unused is not None:
            return row_term, first, second, f", and `{unused}` is never used"
    return None


def _is_joined_from(whole: Term, ids: Term) -> bool:
    return whole.op == "cat" and ids in whole.args[1].children()


def _given(term: Term) -> set[Term]:
    """The arguments of the function that a value depends on."""
    return {inner for inner in term.walk() if inner.op == "parameter"}


def _made_from(ids: Term) -> set[Term]:
    """The arguments whose number of rows went into ids."""
    shapes = [inner for inner in ids.walk() if inner.op in {"shape", "len", "numel"}]
    return {inner for shape in shapes for inner in shape.args[0].walk() if inner.op == "parameter"}


def _unused_ids(view: View, ids: Term, first: Term, second: Term) -> str | None:
    """An argument that by its name holds the ids of the second part, and that the function never reads."""
    if not all(term.op == "parameter" for term in (ids, first, second)):
        return None
    covered, own, other = (words(term.args[0]) for term in (ids, first, second))
    if not {word.rstrip("s") for word in covered} & {word.rstrip("s") for word in own}:
        return None
    for name in view.function.parameters:
        named_like = words(name)
        if (
            named_like & (other - own - covered)
            and name.endswith("_ids")
            and not any(_reads(node, name) for node in view.nodes)
        ):
            return name
    return None


def _reads(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


_HEAD = "import torch\n\n\n"
_MODEL = "    return model(hidden_states=rows, encoder_hidden_states=prompt, img_ids={ids}, txt_ids=txt_ids)\n"

RULE = Rule(
    "VL231",
    "ids-of-one-part",
    "stable",
    __doc__,
    check,
    valid=(
        # The ids of all rows are given, too.
        _HEAD + "def predict(model, latents, cond):\n    rows = torch.cat([latents, cond], dim=1)\n"
        "    latent_ids, cond_ids = torch.arange(latents.shape[1]), torch.arange(cond.shape[1])\n"
        "    return model(rows, latent_ids=latent_ids, ids=torch.cat([latent_ids, cond_ids]))\n",
        _HEAD + "def predict(model, latents, ref_latents, prompt, latent_ids, ref_ids, txt_ids):\n"
        "    rows = torch.cat([latents, ref_latents], dim=1)\n"
        "    ids = torch.cat([latent_ids, ref_ids])\n" + _MODEL.format(ids="ids"),
        # The ids of both come from outside.
        _HEAD + "def predict(model, latents, ref_latents, prompt, img_ids, txt_ids):\n"
        "    rows = torch.cat([latents, ref_latents], dim=1)\n" + _MODEL.format(ids="img_ids"),
        # Joined by features.
        _HEAD + "def predict(model, latents, control, prompt, grid, txt_ids):\n"
        "    ids = grid(latents.shape[1])\n"
        "    rows = torch.cat([latents, control], dim=2)\n" + _MODEL.format(ids="ids"),
    ),
    invalid=(
        Invalid(
            _HEAD + "def predict(model, latents, ref_latents, prompt, latent_ids, ref_ids, txt_ids):\n"
            "    rows = torch.cat([latents, ref_latents], dim=1)\n" + _MODEL.format(ids="latent_ids"),
            rows=(6,),
        ),
        Invalid(
            _HEAD + "def predict(model, latents, reference, prompt, grid, txt_ids):\n"
            "    ids = grid(latents.shape[1])\n"
            "    rows = latents\n"
            "    if reference is not None:\n"
            "        rows = torch.cat([latents, reference], dim=1)\n" + _MODEL.format(ids="ids"),
            rows=(9,),
        ),
    ),
)
