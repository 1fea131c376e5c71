"""Pieces of two streams are joined on each rank and then gathered, but their metadata is joined as a whole.

### What it does
Reports a call that gets rows gathered over the ranks from the join of two pieces (text and image of this rank), beside a mask, tags,
positions or rotary frequencies joined from the same two streams uncut.

### Why is this bad?
After gathering the rows run text 0, image 0, text 1, image 1, and so on; the metadata runs text, image. The shapes agree.

### Example
```python
rows = torch.cat([text.chunk(n, 1)[rank], image.chunk(n, 1)[rank]], dim=1)
mask = torch.cat([text_mask, image_mask], dim=1)
out = attend(all_to_all(rows), mask=mask)
```

### Use instead
```python
mask = torch.cat([torch.cat(pair, dim=1) for pair in zip(text_mask.chunk(n, 1), image_mask.chunk(n, 1))], dim=1)
out = attend(all_to_all(rows), mask=mask)
```

### Fix safety
No fix: the rows may be reordered instead.

### References
- [DeepSpeed Ulysses](https://github.com/deepspeedai/DeepSpeed/tree/master/blogs/deepspeed-ulysses)
"""

import re
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.rows import Rows, rows_of
from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.shards import is_of_rank
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.queries.words import side_words
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_GATHERS = re.compile(r"all_to_all|all2all|alltoall|all_gather|allgather|gather_seq|gather_forward", re.IGNORECASE)


def check(view: View) -> Iterator[Finding]:
    """VL521."""
    gathered = {call.result: joined for call in view.calls if (joined := _joined_pieces(call)) is not None}
    for call in view.calls if gathered else ():
        arguments = [*call.args, *call.kwargs.values()]
        rows = next(((term, gathered[term]) for term in arguments if term in gathered), None)
        if rows is None:
            continue
        nodes = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
        for term, node in zip(arguments, nodes, strict=False):
            whole = _joined_wholes(term)
            if whole is None or not _of_same_streams(rows[1], whole):
                continue
            yield view.finding(
                RULE,
                node,
                f"the rows were joined on each rank{view.line(rows[1].parts[0].changes[-1].term.node)} and then gathered"
                f"{view.line(rows[0].node)}, so the streams alternate by rank, but {written(node)} holds one stream after the "
                "other: join it by rank too",
                notes=[(rows[0].node, "gathered here")],
            )
            break


def _joined_pieces(call: Call) -> Rows | None:
    """The rows that a collective gets, if they are several pieces of this rank, one of each stream."""
    if not _GATHERS.search(call.name) or not call.args or call.args[0] is None or call.args[0].op != "cat":
        return None
    rows = rows_of(call.args[0])
    last = [part.changes[-1] if part.changes else None for part in rows.parts]
    cuts = [change for change in last if change is not None and is_of_rank(change)]
    same = len({change.same_as for change in cuts}) == 1
    return rows if rows.known and not rows.changes and len(cuts) == len(rows.parts) > 1 and same else None


def _joined_wholes(term: Term | None) -> Rows | None:
    if term is None or term.op != "cat":
        return None
    rows = rows_of(term)
    return rows if rows.known and not rows.all_changes and len(rows.parts) > 1 else None


def _of_same_streams(pieces: Rows, wholes: Rows) -> bool:
    """Whether each part is called like the stream at its place, and like no other."""
    if len(pieces.parts) != len(wholes.parts):
        return False
    streams = [_said(part.root) for part in pieces.parts]
    metadata = [_said(part.root) for part in wholes.parts]
    shared = set.intersection(*streams) | set.intersection(*metadata)
    return all(bool((one & other) - shared) for one, other in zip(streams, metadata, strict=True))


def _said(root: Term) -> set[str]:
    return set() if root.node is None or root.op not in {"parameter", "item", "attr"} else side_words(root.node, root)


RULE = Rule(
    "VL521",
    "joined-before-gathered",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef f(txt, img, txt_mask, img_mask, n, rank, attend, all_to_all):\n"
        "    rows = torch.cat([txt.chunk(n, 1)[rank], img.chunk(n, 1)[rank]], dim=1)\n"
        "    pairs = zip(txt_mask.chunk(n, 1), img_mask.chunk(n, 1))\n"
        "    mask = torch.cat([m for pair in pairs for m in pair], dim=1)\n"
        "    return attend(all_to_all(rows), mask=mask)\n",
        "import torch\n\n\ndef f(txt, img, txt_mask, img_mask, n, rank, attend, all_gather):\n"
        "    mine = [txt.chunk(n, 1)[rank], img.chunk(n, 1)[rank]]\n"
        "    rows = torch.cat([all_gather(part) for part in mine], dim=1)\n"
        "    return attend(rows, mask=torch.cat([txt_mask, img_mask], dim=1))\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\ndef f(txt, img, txt_mask, img_mask, n, rank, attend, all_to_all):\n"
            "    rows = torch.cat([txt.chunk(n, 1)[rank], img.chunk(n, 1)[rank]], dim=1)\n"
            "    mask = torch.cat([txt_mask, img_mask], dim=1)\n"
            "    return attend(all_to_all(rows), mask=mask)\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\n\n\nclass Joint:\n    def forward(self, batch, group):\n"
            "        a, b = (torch.chunk(batch[key], group.size(), dim=1)[group.rank()] for key in ('text', 'video'))\n"
            "        rows = self.all_gather_seq(torch.cat((a, b), dim=1))\n"
            "        freqs = torch.cat((batch['text_freqs'], batch['video_freqs']), dim=0)\n"
            "        return self.attention(rows, freqs)\n",
            rows=(9,),
        ),
    ),
)
