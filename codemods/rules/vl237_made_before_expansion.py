"""Placeholders become several tokens, but masks, tags or positions were made for the tokens before that.

### What it does
Reports token ids that a loop or comprehension builds from other ids with more (or fewer) than one id for some of them, beside a
mask, tags, labels or positions with one entry for each of the ids before.

### Why is this bad?
From the first placeholder on every entry belongs to another token, and the lengths differ. Where the collator pads both, nothing
fails.

### Example
```python
attention_mask = [1] * len(prompt_ids)
input_ids = []
for token in prompt_ids:
    input_ids += [token] * num_patches if token == image_token else [token]
return {"input_ids": input_ids, "attention_mask": attention_mask}
```

### Use instead
```python
input_ids = []
for token in prompt_ids:
    input_ids += [token] * num_patches if token == image_token else [token]
attention_mask = [1] * len(input_ids)
return {"input_ids": input_ids, "attention_mask": attention_mask}
```

### Fix safety
No fix: the entries of the new tokens depend on what the value means.

### References
- [transformers: multimodal processors](https://huggingface.co/docs/transformers/main/en/processors)
"""

from collections.abc import Iterator

from shapecheck.codemods.compare import sample_of
from shapecheck.codemods.engine.describe.rows import rows_of
from shapecheck.codemods.engine.describe.tags import per_row_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.queries.partings import place, shown
from shapecheck.codemods.queries.siblings import is_per_row
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View

_MANY = -1  # a number of ids that is not known


def check(view: View) -> Iterator[Finding]:
    """VL237."""
    made = view.module.pool.by_op
    if "rounds" not in made and "each" not in made:
        return
    seen: set[Term] = set()
    for company in companies(view):
        for rows in company.members:
            before = _expanded(rows.term)
            for meta in company.members if before is not None else ():
                if before is None or meta is rows or meta.term in seen or not _made_for(meta, before):
                    continue
                seen.add(meta.term)
                yield view.finding(
                    RULE,
                    meta.node,
                    f"`{shown(rows)}` was built with another number of ids than it was made from{place(view, _stripped(rows.term))}, "
                    f"but `{shown(meta)}` has an entry for each id before that{place(view, meta.term)}; make it for the new ids",
                    notes=[(_stripped(rows.term).node, "ids built here"), (meta.term.node, "made for the ids before")],
                )


def _stripped(term: Term) -> Term:
    while term.op in {"tensor", "copy", "cast", "moved", "host", "view"} or (
        term.op == "call" and term.args[0] in _TENSORS
    ):
        term = term.args[1 if term.op == "view" else -1 if term.op == "call" else 0]
    return term


_TENSORS = {".tensor", ".LongTensor", ".array", ".asarray", "torch.LongTensor"}


def _expanded(term: Term) -> Term | None:
    """The ids that a value was built from one by one, where some of them do not give exactly one."""
    term = _stripped(term)
    if term.op == "rounds" and term.args[0].op == "list" and not term.args[0].args:
        source, counts = term.args[2], _added(term.args[1])
    elif term.op == "each" and len(term.args) == 2 and term.args[0].op == "star":
        source, counts = term.args[1], _items(term.args[0].args[0])
    else:
        return None
    while source.op in {"enumerate", "copy", "host"}:
        source = source.args[0]
    item = source.pool.make("elem", source)
    taken = (
        counts is not None
        and _MANY in counts | {count for count in counts if count > 1}
        and any(inner is item for inner in term.walk())
    )
    return source if taken and 1 in (counts or ()) and source.op not in {"arange", "zip", "items"} else None


def _added(term: Term) -> set[int] | None:
    """How many items a round may add to the list that it began with; None if not understood."""
    match term.op:
        case "round":
            return {0}
        case "phi":
            return _both(_added(term.args[1]), _added(term.args[2]))
        case "append":
            return _sum(_added(term.args[0]), {1})
        case "Add" | "extend":
            return _sum(_added(term.args[0]), _items(term.args[1]))
    return None


def _items(term: Term) -> set[int] | None:
    """How many items a list may have."""
    match term.op:
        case "phi":
            return _both(_items(term.args[1]), _items(term.args[2]))
        case "list" if not any(part.op == "star" for part in term.args):
            return {len(term.args)}
        case "Mult" if term.args[0].op == "list" and len(term.args[0].args) == 1:
            return {term.args[1].value if isinstance(term.args[1].value, int) else _MANY}
        case "Add":
            return _sum(_items(term.args[0]), _items(term.args[1]))
        case "each" if len(term.args) == 2 and term.args[0] is term.pool.make("elem", term.args[1]):
            return _items(term.args[1])  # [x for x in items]
    return None


def _both(one: set[int] | None, other: set[int] | None) -> set[int] | None:
    return None if one is None or other is None else one | other


def _sum(one: set[int] | None, other: set[int] | None) -> set[int] | None:
    if one is None or other is None:
        return None
    return {_MANY if _MANY in {a, b} else a + b for a in one for b in other}


def _made_for(meta: Argument, before: Term) -> bool:
    """Whether a value has an entry for each of the ids before."""
    if not is_per_row(meta):
        return False
    root = rows_of(before).flat
    per_row = per_row_of(meta.term)
    if per_row is not None:
        return [part.key for part in per_row.parts] == [part.key for part in root]
    given = _stripped(meta.term)
    fields = given.op == before.op and given.op in {"item", "attr"} and given is not before
    return fields and sample_of(given) is sample_of(before) and sample_of(given) is not given


_HEAD = "def expand(prompt_ids, image_token, n):\n"
_LOOP = (
    "    ids = []\n    for token in prompt_ids:\n        if token == image_token:\n            ids += [token] * n\n"
    "        else:\n            ids.append(token)\n"
)

RULE = Rule(
    "VL237",
    "made-before-expansion",
    "stable",
    __doc__,
    check,
    valid=(
        f"{_HEAD}{_LOOP}    attention_mask = [1] * len(ids)\n    return {{'input_ids': ids, 'attention_mask': attention_mask}}\n",
        # Each id gives one id.
        f"{_HEAD}    attention_mask = [1] * len(prompt_ids)\n    ids = []\n    for token in prompt_ids:\n"
        "        ids.append(n if token == image_token else token)\n"
        "    return {'input_ids': ids, 'attention_mask': attention_mask}\n",
        # The mask grows along.
        f"{_HEAD}    ids, attention_mask = [], []\n    for token in prompt_ids:\n        k = n if token == image_token else 1\n"
        "        ids += [token] * k\n        attention_mask += [1] * k\n    return {'input_ids': ids, 'attention_mask': attention_mask}\n",
        # A value for each of the prompt's ids, under no name of per-row values.
        f"{_HEAD}    widths = [1] * len(prompt_ids)\n{_LOOP}    return {{'input_ids': ids, 'widths': widths}}\n",
    ),
    invalid=(
        Invalid(
            f"{_HEAD}    attention_mask = [1] * len(prompt_ids)\n{_LOOP}"
            "    return {'input_ids': ids, 'attention_mask': attention_mask}\n",
            rows=(9,),
        ),
        Invalid(
            f"{_HEAD}    token_type_ids = [0] * len(prompt_ids)\n"
            "    ids = [i for token in prompt_ids for i in ([token] * n if token == image_token else [token])]\n"
            "    return {'input_ids': ids, 'token_type_ids': token_type_ids}\n",
            rows=(4,),
        ),
        Invalid(
            f"{_HEAD}    labels = [-100] * len(prompt_ids)\n    ids = []\n    for token in prompt_ids:\n        ids.append(token)\n"
            "        if token == image_token:\n            ids += [token] * (n - 1)\n    return {'input_ids': ids, 'labels': labels}\n",
            rows=(8,),
        ),
        Invalid(
            "def expand(tokenizer, text, image_token, n):\n    encoded = tokenizer(text)\n    prompt_ids = encoded['input_ids']\n"
            f"{_LOOP}    return {{'input_ids': ids, 'attention_mask': encoded['attention_mask']}}\n",
            rows=(10,),
        ),
    ),
)
