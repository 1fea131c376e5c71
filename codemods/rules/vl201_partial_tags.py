"""Tags or positions omit a segment of the rows that they travel with.

### What it does
Finds rows that were joined from several parts beside per-token values (tags, type ids, position ids) that were made for some of
these parts only.

### Why is this bad?
The values are shorter than the stream. Where lengths are checked the program stops; where they are not, or where the values are cut
or padded later, every token behind the gap reads the value of another token.

### Example
```python
x = torch.cat([text, image, audio])
token_tags = torch.cat([torch.full((len(text),), TEXT), torch.full((len(image),), IMAGE)])
```

### Use instead
```python
x = torch.cat([text, image, audio])
token_tags = torch.cat([torch.full((len(text),), TEXT), torch.full((len(image),), IMAGE), torch.full((len(audio),), AUDIO)])
```

### Fix safety
Unsafe: the missing piece is written after the pattern of its neighbours, whose values may not be meant for it. There is a fix only
where all pieces follow one pattern.

### References
- [TRL: token type ids of prompt and completion](https://github.com/huggingface/trl/pull/5178)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.compare import sample_of
from shapecheck.codemods.findings import Finding, Fix, InsertItem
from shapecheck.codemods.queries.covers import TAGS, Cover, covers
from shapecheck.codemods.queries.file_names import class_names, file_names
from shapecheck.codemods.queries.in_scope import near, reads, value_at
from shapecheck.codemods.queries.naming import display_of, part_name, part_names
from shapecheck.codemods.queries.patterns import next_of, words
from shapecheck.codemods.queries.qualified import is_for_its_parts, is_for_other_member
from shapecheck.codemods.queries.used_once import used_once
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_KINDS = {"missing", "extra"}


def check(view: View) -> Iterator[Finding]:
    """VL201."""
    seen: set[object] = set()
    for cover in covers(view):
        if cover.difference is None or cover.difference.kind not in _KINDS or cover.meta.term in seen:
            continue
        if _is_named_after_part(cover):
            continue
        if not _certain(cover) or (cover.per_row is None and not _witnessed(view, cover)):
            continue
        seen.add(cover.meta.term)
        yield _finding(view, cover)


def _certain(cover: Cover) -> bool:
    """One shared part may be chance, unless the name says that it is a value for each row.

    Pieces that were cut, as in `[start, *ids[1:]]`, may make up for the other part.
    """
    changes = {sample_of(part.root): [change.same_as for change in part.changes] for part in cover.parts}
    for part in cover.row_parts:
        if changes.get(sample_of(part.root)) not in (None, [change.same_as for change in part.changes]):
            return False
    shared = min(len(cover.parts), len(cover.row_parts))
    return shared > 1 or cover.meta.role in TAGS


def _is_named_after_part(cover: Cover) -> bool:
    """Whether the name of the tags says that they are for less than all rows."""
    if cover.difference is None or cover.difference.kind != "missing":
        return False
    names = (member.name for member in cover.company.members)
    return is_for_other_member(cover.meta, cover.rows, names) or is_for_its_parts(
        cover.meta, cover.rows, cover.parts, cover.difference.part
    )


def _witnessed(view: View, cover: Cover) -> bool:
    """Whether further values that travel along have all parts, so that the tags alone fall short."""
    if cover.difference is None or cover.difference.kind != "missing":
        return False
    agreeing = {
        id(other.rows.node)
        for other in covers(view)
        if other.company is cover.company and other.meta is cover.meta and len(other.row_parts) == len(cover.row_parts)
    }
    return len(agreeing) > 1


def _finding(view: View, cover: Cover) -> Finding:
    assert cover.difference is not None
    rows, meta = cover.rows.name or "the rows", cover.meta.name or "the tags"
    names = part_names(view, cover.row_term, cover.row_parts)
    have = ", ".join(names)
    covered = ", ".join(part_name(view, part) for part in cover.parts)
    node = cover.meta.node
    if cover.per_row is not None and cover.per_row.term.node is not None:
        node = cover.per_row.term.node
    odd = part_name(view, cover.difference.part)
    if cover.difference.part in cover.row_parts:
        odd = names[cover.row_parts.index(cover.difference.part)]
    at = view.line(cover.row_term.node)
    if cover.difference.kind == "missing":
        message = f"`{rows}` was joined from {have}{at}, but `{meta}` covers {covered} only; add the values for {odd}"
    else:
        message = f"`{meta}` covers {covered}, but `{rows}` was joined from {have} only{at}; {odd} is not in the rows"
    notes = [
        (cover.row_term.node, f"`{rows}` is joined here"),
        (cover.difference.part.root.node, f"{odd} comes from here"),
    ]
    return view.finding(RULE, node, message, notes=notes, fix=_fix(view, cover))


def _fix(view: View, cover: Cover) -> Fix | None:
    display = display_of(cover.meta.term)
    rows = display_of(cover.row_term)
    if cover.per_row is None or not isinstance(display, ast.List | ast.Tuple) or rows is None or len(cover.parts) < 2:
        return None
    if len(display.elts) != len(cover.parts) or len(rows.elts) != len(cover.row_parts):
        return None
    covered = {part.key for part in cover.parts}
    missing = [at for at, part in enumerate(cover.row_parts) if part.key not in covered]
    if len(missing) != 1:
        return None
    names = [view.source.code(elt) for elt in rows.elts]
    present = [name for at, name in enumerate(names) if at != missing[0]]
    items = [view.source.code(elt) for elt in display.elts]
    code = next_of(items, present, names[missing[0]])
    if code is None or not used_once(view, display) or not _is_known(view, code, items, rows.elts[missing[0]], display):
        return None
    edit = InsertItem(view.source.span(display), missing[0], code)
    return view.fix(f"Add `{code}`", edit)


def _is_known(view: View, code: str, items: list[str], part: ast.expr, display: ast.expr) -> bool:
    """Whether all that a new item names beyond the other items exists: the part, constants of the file or of its classes."""
    new = words(code) - set().union(*map(words, items))
    joined, tagged = near(view, part), near(view, display)
    name = view.source.code(part)
    value = None if joined is None else value_at(view, joined, name)
    if value is None or tagged is None or not reads(view, tagged, part, value):
        return False
    return all(_exists(view, node, new, name) for node in ast.walk(ast.parse(code, mode="eval")))


def _exists(view: View, node: ast.AST, new: set[str], part: str) -> bool:
    """Whether what one node names exists, as far as it says one of the new words."""
    match node:
        case ast.Name(id=word) if word in new:
            return word == part or word in file_names(view)
        case ast.Attribute(value=ast.Name(id=owner), attr=word) if word in new:
            return word in class_names(view, owner)
        case ast.Attribute(attr=word) | ast.keyword(arg=str(word)):
            return word not in new
        case ast.Constant(value=str(text)):
            return words(text).isdisjoint(new)
    return True


_HEAD = "import torch\n\n\n"

RULE = Rule(
    "VL201",
    "partial-tags",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def pack(text, image):\n"
        "    x = torch.cat([text, image])\n"
        "    token_tags = torch.cat([torch.zeros(text.shape[0]), torch.ones(image.shape[0])])\n"
        "    return x, token_tags\n",
        # The optional part is added to both under the same condition.
        _HEAD + "def pack(text, image, audio=None):\n"
        "    parts = [text, image]\n"
        "    tags = [torch.zeros(text.shape[0]), torch.ones(image.shape[0])]\n"
        "    if audio is not None:\n"
        "        parts.append(audio)\n"
        "        tags.append(torch.full((audio.shape[0],), 2))\n"
        "    return torch.cat(parts), torch.cat(tags)\n",
        # Each sample's labels start with a separator in place of their first token.
        "def pack(samples, start):\n"
        "    ids, labels, position_ids = [], [], []\n"
        "    for s in samples:\n"
        "        ids += s['ids']\n"
        "        labels += [start, *s['labels'][1:]]\n"
        "        position_ids += range(len(s['ids']))\n"
        "    return {'input_ids': ids, 'labels': labels, 'position_ids': position_ids}\n",
        # A count over a list that grew in a loop.
        "import torch\n\n\ndef finish(prompt, turns, n):\n    ids = list(prompt)\n    for turn in turns:\n        ids += turn['ids']\n"
        "    position_ids = torch.arange(len(ids))\n    return {'input_ids': torch.tensor(ids)[:n], 'position_ids': position_ids[:n]}\n",
        # `list(range(n))` is joined, not added.
        "import torch\n\n\ndef fill(row, dummy, n):\n    extra = [dummy] * n\n    row['input_ids'] = row['input_ids'] + extra\n"
        "    row['labels'] = row['labels'] + [-100] * len(extra)\n"
        "    row['position_ids'] = row['position_ids'] + list(range(len(extra)))\n"
        "    return {key: torch.tensor(row[key]) for key in row}\n",
        # The callee says that the kinds have an axis of their own.
        "import torch\nfrom jaxtyping import Float, Int\nfrom torch import Tensor\n\n\n"
        'def attend(x: Float[Tensor, "S C"], kinds: Int[Tensor, "T"]) -> Float[Tensor, "S C"]:\n    return x\n\n\n'
        "def three(a, b, c):\n    x = torch.cat([a, b, c])\n    kinds = torch.cat([torch.zeros(len(a)), torch.ones(len(b))])\n"
        "    return attend(x, kinds)\n",
        # The tags of the other value that is given.
        _HEAD + "def f(block, text, image):\n    x = torch.cat([text, image])\n"
        "    return block(x, context=text, context_position_ids=torch.arange(len(text)))\n",
        # A value for one part, beside the whole: nothing says that it is meant for all rows.
        _HEAD + "def join(prompt, answer):\n"
        "    input_ids = torch.cat([prompt, answer])\n"
        "    return input_ids, torch.ones(answer.shape[0])\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def pack(text, image, audio):\n"
            "    x = torch.cat([text, image, audio])\n"
            "    token_tags = torch.cat([\n"
            "        torch.full((text.shape[0],), TEXT),\n"
            "        torch.full((image.shape[0],), IMAGE),\n"
            "    ])\n"
            "    return x, token_tags\n\n\n"
            "TEXT, IMAGE, AUDIO = range(3)\n",
            rows=(6,),
            fixed=_HEAD + "def pack(text, image, audio):\n"
            "    x = torch.cat([text, image, audio])\n"
            "    token_tags = torch.cat([\n"
            "        torch.full((text.shape[0],), TEXT),\n"
            "        torch.full((image.shape[0],), IMAGE),\n"
            "        torch.full((audio.shape[0],), AUDIO),\n"
            "    ])\n"
            "    return x, token_tags\n\n\n"
            "TEXT, IMAGE, AUDIO = range(3)\n",
        ),
        Invalid(
            "def join(prompt, answer, end):\n"
            "    input_ids = prompt + answer + [end]\n"
            "    labels = [-100] * len(prompt) + answer + [end]\n"
            "    token_type_ids = [0] * len(prompt) + [1] * len(answer)\n"
            "    return {'input_ids': input_ids, 'labels': labels, 'token_type_ids': token_type_ids}\n",
            rows=(4,),
        ),
        Invalid(
            _HEAD + "def join(prompt, answer):\n"
            "    batch = {\n"
            "        'input_ids': torch.cat([prompt['input_ids'], answer['input_ids']], 1),\n"
            "        'attention_mask': torch.cat([prompt['attention_mask'], answer['attention_mask']], 1),\n"
            "    }\n"
            "    if 'token_type_ids' in prompt:\n"
            "        batch['token_type_ids'] = prompt['token_type_ids']\n"
            "    return batch\n",
            rows=(10,),
        ),
    ),
    fixable=True,
)
