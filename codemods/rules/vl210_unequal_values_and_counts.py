"""There are more or fewer tag values than lengths that they belong to.

### What it does
Finds `repeat_interleave` and `zip` of a fixed number of values and a list of another fixed number of lengths.

### Why is this bad?
`zip` stops at the shorter one, so that the last segments get no tags and the tags are shorter than the rows; `repeat_interleave` raises an
error when it runs.

### Example
```python
tags = [torch.full((n,), tag) for tag, n in zip((0, 1), (len(text), len(image), len(audio)))]
```

### Use instead
```python
tags = [torch.full((n,), tag) for tag, n in zip((0, 1, 2), (len(text), len(image), len(audio)), strict=True)]
```

### Fix safety
No fix: the missing value is not known.

### References
- [zip](https://docs.python.org/3/library/functions.html#zip)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import lens_of, plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL210."""
    by_op = view.module.pool.by_op
    if "repeat_interleave" not in by_op and "zip" not in by_op:
        return
    for call in view.calls:
        if call.result.op == "repeat_interleave":
            values, counts = call.result.args
            pairs = [(values, counts)]
        elif (
            call.result.op == "zip"
            and len(call.result.args) == 2
            and "strict" not in call.kwargs
            and call.name == "zip"
        ):
            one, other = call.result.args
            pairs = [(one, other), (other, one)]
        else:
            continue
        for values, counts in pairs:
            have, want = _items(values), _items(counts)
            if have is None or want is None or have in {1, want} or not _are_lengths(counts):
                continue
            yield view.finding(
                RULE,
                call.node,
                f"{have} values{view.line(values.node)} meet {want} lengths{view.line(counts.node)}; give one value for each length",
                notes=[(values.node, f"{have} values"), (counts.node, f"{want} lengths")],
            )
            break


def _items(term: Term) -> int | None:
    """The number of items of a display."""
    term = plain(term)
    if term.op not in {"list", "tuple"} or any(part.op == "star" for part in term.children()):
        return None
    return len(term.args)


def _are_lengths(term: Term) -> bool:
    lens = lens_of(term)
    return lens is not None and lens.kind == "parts"


_HEAD = "import torch\n\n\n"

RULE = Rule(
    "VL210",
    "unequal-values-and-counts",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def tags(text, image):\n"
        "    lens = torch.tensor([text.shape[0], image.shape[0]])\n"
        "    return torch.repeat_interleave(torch.tensor([0, 1]), lens)\n",
        # The optional part brings its value.
        _HEAD + "def tags(text, image, audio=None):\n"
        "    lens, values = [len(text), len(image)], [0, 1]\n"
        "    if audio is not None:\n"
        "        lens.append(len(audio))\n"
        "        values.append(2)\n"
        "    return torch.repeat_interleave(torch.tensor(values), torch.tensor(lens))\n",
        # Neighbours: one less is right.
        "def gaps(a, b, c):\n"
        "    lens = [len(a), len(b), len(c)]\n"
        "    tokens = [second - first for first, second in zip(lens[:-1], lens[1:])]\n"
        "    return lens, tokens\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def tags(text, image, audio):\n"
            "    lens = torch.tensor([text.shape[0], image.shape[0], audio.shape[0]])\n"
            "    modality_ids = torch.repeat_interleave(torch.tensor([0, 1]), lens)\n"
            "    return modality_ids\n",
            rows=(6,),
        ),
        Invalid(
            _HEAD + "def tags(text, image, audio):\n"
            "    lens = (len(text), len(image), len(audio))\n"
            "    token_tags = torch.cat([torch.full((n,), tag) for tag, n in zip((0, 1), lens)])\n"
            "    return token_tags\n",
            rows=(6,),
        ),
    ),
)
