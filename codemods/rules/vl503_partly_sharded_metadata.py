"""Queries and keys are cut into pieces for the ranks, their segment tags are not.

### What it does
Reports a call whose row arguments were all cut to the piece of this rank in the same way, while the segment tags in the same call
still count all rows.

### Why is this bad?
Where the sizes may differ, tags of the first rank's rows are applied to every rank.

### Example
```python
q, k, v = (x.chunk(world, dim=2)[rank] for x in (q, k, v))
out = flash_attention(q, k, v, q_segment_ids=segment_ids, kv_segment_ids=segment_ids)
```

### Use instead
```python
q, k, v = (x.chunk(world, dim=2)[rank] for x in (q, k, v))
local_ids = segment_ids.chunk(world, dim=1)[rank]
out = flash_attention(q, k, v, q_segment_ids=local_ids, kv_segment_ids=local_ids)
```

### Fix safety
No fix: the axis of the tags differs from that of the rows.

### References
- [Ring attention with segment ids](https://github.com/pytorch/xla/issues/8334)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.describe.rows import Change, rows_of
from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.shards import is_shard
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_TAGS = ("tags_q", "tags_k", "tags")
_ROWS = ("q", "k", "v", "query", "key", "value")


def check(view: View) -> Iterator[Finding]:
    """VL503."""
    for consumer in view.consumers:
        tags = [consumer.roles[role] for role in _TAGS if role in consumer.roles]
        cuts = _common_cut(consumer.call) if tags else None
        if cuts is None:
            continue
        for given in tags:
            rows = rows_of(given.term)
            if rows.known and not rows.all_changes and plain(given.term).op in {"parameter", "item", "attr"}:
                place = view.line(cuts.term.node)
                yield view.finding(
                    RULE,
                    given.node,
                    f"the rows of this call were cut to the piece of one rank{place}, but {written(given.node)} still has a tag for "
                    "every row of all ranks: cut it at the same place",
                    notes=[(cuts.term.node, "the rows are cut here")],
                )
                break


def _common_cut(call: Call) -> Change | None:
    """The cut that all row arguments share, if there are two or more."""
    found: list[Change] = []
    named = [call.kwargs[name] for name in _ROWS if name in call.kwargs]
    for term in (*call.args[:3], *named):
        changes = rows_of(term).all_changes if term is not None else ()
        if not changes or not is_shard(changes[-1]):
            return None
        found.append(changes[-1])
    if len(found) < 2 or len({change.same_as for change in found}) != 1:
        return None
    return found[0]


RULE = Rule(
    "VL503",
    "partly-sharded-metadata",
    "stable",
    __doc__,
    check,
    valid=(
        "def f(attend, q, k, v, segment_ids, rank, world):\n"
        "    q, k, v = (x.chunk(world, dim=1)[rank] for x in (q, k, v))\n"
        "    mine = segment_ids.chunk(world, dim=1)[rank]\n"
        "    return attend(q, k, v, q_segment_ids=mine, kv_segment_ids=mine)\n",
        "def f(attend, all_to_all, q, k, v, segment_ids, rank, world):\n"
        "    q, k, v = (all_to_all(x.chunk(world, dim=1)[rank]) for x in (q, k, v))\n"
        "    return attend(q, k, v, segment_ids=segment_ids)\n",
        "def f(attend, q, k, v, segment_ids):\n"
        "    q, k, v = (x.chunk(2, dim=-1)[0] for x in (q, k, v))\n"
        "    return attend(q, k, v, segment_ids=segment_ids)\n",
    ),
    invalid=(
        Invalid(
            "def f(attend, q, k, v, segment_ids, rank, world):\n"
            "    q, k, v = (x.chunk(world, dim=1)[rank] for x in (q, k, v))\n"
            "    return attend(q, k, v, q_segment_ids=segment_ids, kv_segment_ids=segment_ids)\n",
            rows=(3,),
        ),
        Invalid(
            "import torch\n\n\ndef f(attend, q, k, v, segment_ids, group):\n"
            "    n, me = group.size(), group.rank()\n"
            "    q, k, v = [torch.tensor_split(x, n, dim=1)[me] for x in (q, k, v)]\n"
            "    return attend(query=q, key=k, value=v, segment_ids=segment_ids)\n",
            rows=(7,),
        ),
        Invalid(
            "def f(attend, batch, rank, rows):\n"
            "    q = batch['q'][rank * rows : (rank + 1) * rows]\n"
            "    k = batch['k'][rank * rows : (rank + 1) * rows]\n"
            "    v = batch['v'][rank * rows : (rank + 1) * rows]\n"
            "    return attend(q, k, v, segment_ids=batch['segment_ids'])\n",
            rows=(5,),
        ),
    ),
)
