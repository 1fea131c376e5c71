"""The pieces of a sample are counted, then one more is added before all of them are joined.

### What it does
Reports lengths that were measured on each sample's list before rows were appended to it, where the longer lists are joined and
the lengths cut or describe the result: boundaries, `seq_lens`, or the sizes of a split in the same file.

### Why is this bad?
The lengths sum up to fewer rows than there are. From the first longer sample on every segment starts too early.

### Example
```python
tiles = cut(image)
num_tiles.append(len(tiles))
tiles.append(thumbnail(image))
pixel_values.extend(tiles)
```

### Use instead
```python
tiles = cut(image)
tiles.append(thumbnail(image))
num_tiles.append(len(tiles))
pixel_values.extend(tiles)
```

### Fix safety
No fix: the count may have to move, or the row may have to be added elsewhere.

### References
- [torch.split](https://pytorch.org/docs/stable/generated/torch.split.html)
"""

import re
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.queries.partings import partings, place, shown
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View

_LENGTHS = {"lens", "lengths", "seqlens", "seq_lens", "seq_lengths"}
_JOINED = {"stack": 1, "cat": 1, "tensor": 0, "cast": 0, "moved": 0, "copy": 0, "view": 1, "flattened": 0}


def check(view: View) -> Iterator[Finding]:
    """VL236."""
    made = view.module.pool.by_op
    if "each" not in made or "len" not in made or not ("append" in made or "extend" in made or "Add" in made):
        return
    seen: set[Term] = set()
    for company in companies(view):
        for meta in company.members:
            counted = _counted(meta.term)
            for rows in company.members if counted is not None else ():
                if counted is None or rows is meta or meta.term in seen:
                    continue
                growth = _growth(rows.term, *counted)
                if growth is not None and not _known(view, meta) and _describes(view, meta, rows):
                    seen.add(meta.term)
                    yield view.finding(
                        RULE,
                        meta.node,
                        f"`{shown(meta)}` counts each sample's rows before more are added{place(view, growth)}, and `{shown(rows)}` is "
                        "joined from the longer lists; count afterwards",
                        notes=[(counted[0].node, "counted here"), (growth.node, "rows added here")],
                    )


def _counted(meta: Term) -> tuple[Term, Term] | None:
    """The list of which lengths were taken, and the samples: `[len(x) for sample in samples]`."""
    bounds = bounds_of(meta)
    lens = plain(meta if bounds is None else bounds.source)
    if lens.op != "each" or len(lens.args) != 2 or lens.args[0].op != "len":
        return None
    return lens.args[0].args[0], lens.args[1]


def _growth(rows: Term, counted: Term, samples: Term) -> Term | None:
    """Where the list that was counted got longer before it was joined with those of the other samples."""
    while rows.op in _JOINED:
        rows = rows.args[_JOINED[rows.op]]
    if rows.op != "each" or len(rows.args) != 2 or rows.args[1] is not samples or rows.args[0].op != "star":
        return None
    return _grown(rows.args[0].args[0], counted)


def _grown(term: Term, counted: Term) -> Term | None:
    """The first addition to a list in some branch; None where a branch does not begin with that list."""
    if term.op == "phi":
        sides = [side for side in term.args[1:] if side is not counted]
        found = [_grown(side, counted) for side in sides]
        return None if None in found or not found else found[0]
    last: Term | None = None
    while term.op in {"append", "extend", "Add"}:
        last, term = term, term.args[0]
        if last.op == "Add" and last.args[1].op not in {"list", "each", "Mult"}:
            return None
    return last if term is counted else None


def _known(view: View, meta: Argument) -> bool:
    """Whether another rule speaks of these boundaries."""
    return bounds_of(meta.term) is not None and any(parting.meta.term is meta.term for parting in partings(view))


def _describes(view: View, meta: Argument, rows: Argument) -> bool:
    """Whether the lengths certainly are those of the joined rows."""
    if bounds_of(meta.term) is not None or meta.name in _LENGTHS:
        return True
    cut = rf"\b{re.escape(rows.name)}\b[^\n]*split\([^\n]*\b{re.escape(meta.name)}\b"
    return bool(rows.name and meta.name) and re.search(cut, view.source.text) is not None


_HEAD = "import torch\n\n\ndef collate(images, cut, small):\n    rows, lens = [], []\n    for image in images:\n        tiles = cut(image)\n"
_END = "        rows.extend(tiles)\n    return {'pixel_values': torch.stack(rows), 'num_tiles': lens}\n\n\n"
_SPLIT = "def features(tower, batch):\n    return tower(batch['pixel_values']).split(batch['num_tiles'])\n"

RULE = Rule(
    "VL236",
    "counted-before-it-grew",
    "stable",
    __doc__,
    check,
    valid=(
        f"{_HEAD}        tiles.append(small(image))\n        lens.append(len(tiles))\n{_END}{_SPLIT}",
        # How many tiles there are besides the small image; nothing cuts by them.
        f"{_HEAD}        lens.append(len(tiles))\n        tiles.append(small(image))\n{_END}",
        # The length of the prompt within the sample.
        "def pack(samples):\n    input_ids, prompt_lens = [], []\n    for sample in samples:\n        ids = list(sample['prompt'])\n"
        "        prompt_lens.append(len(ids))\n        ids += [2]\n        input_ids.extend(ids)\n"
        "    return {'input_ids': input_ids, 'prompt_lens': prompt_lens}\n",
    ),
    invalid=(
        Invalid(
            f"{_HEAD}        lens.append(len(tiles))\n        if len(tiles) > 1:\n            tiles.append(small(image))\n{_END}{_SPLIT}",
            rows=(12,),
        ),
        Invalid(
            "def pack(samples, eos):\n    tokens, seq_lens = [], []\n    for sample in samples:\n        ids = list(sample['ids'])\n"
            "        seq_lens.append(len(ids))\n        ids = ids + [eos]\n        tokens += ids\n    return tokens, seq_lens\n",
            rows=(8,),
        ),
    ),
)
