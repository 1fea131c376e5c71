"""Values are cut to the same part of the padded rows, but not all of them were padded.

### What it does
Reports values that leave a function together after one and the same cut (a rank's slice, a chunk) where some were padded
before it to a width that the cut was computed from, and others were not.

### Why is this bad?
The cut divides the padded width. Of a value without the padding, the last rank gets fewer rows than of the others, or none;
where the two are broadcast or added, nothing says so.

### Example
```python
if pad:
    input_ids = F.pad(input_ids, (0, pad))
width = input_ids.shape[1] // world
mine = slice(rank * width, (rank + 1) * width)
return input_ids[:, mine], position_ids[:, mine]
```

### Use instead
```python
if pad:
    input_ids = F.pad(input_ids, (0, pad))
    position_ids = F.pad(position_ids, (0, pad))
width = input_ids.shape[1] // world
mine = slice(rank * width, (rank + 1) * width)
return input_ids[:, mine], position_ids[:, mine]
```

### Fix safety
No fix: what to fill in depends on the value.

### References
- [verl: Ulysses sequence parallelism](https://verl.readthedocs.io/en/latest/perf/perf_tuning.html)
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shapecheck.codemods.compare import worlds
from shapecheck.codemods.engine.describe.lengths import length_of
from shapecheck.codemods.engine.describe.rows import Change, rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.companions import companies
from shapecheck.codemods.queries.history import traced
from shapecheck.codemods.queries.naming import named
from shapecheck.codemods.queries.partings import first_round, place, shown
from shapecheck.codemods.queries.siblings import is_per_row
from shapecheck.codemods.queries.unpadded_entries import unpadded_entries
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View, name_of

# Further names of values that have one entry for each row of the tensor beside them.
_PER_ROW = re.compile(r"(^|_)(cos|sin|freqs?(_cis)?|rope|rotary(_emb)?|pos(itions?)?|mask|ids|labels?|timesteps?)$")


@dataclass(frozen=True, eq=False)
class _Cut:
    member: Argument
    root: Term
    before: tuple[Change, ...]
    cut: Change

    @property
    def padding(self) -> Change | None:
        return self.before[0] if len(self.before) == 1 and self.before[0].kind == "pad" else None


def check(view: View) -> Iterator[Finding]:
    """VL330."""
    made = view.module.pool.by_op
    if not any(op in made for op in ("pad", "full", "arange")):
        return
    seen: set[Term] = set()
    for members in _groups(view):
        for terms in worlds(*(first_round(member.term) for member in members)):
            padded, bare = _parted([_cut(*pair) for pair in zip(members, terms, strict=True)])
            padding = None if padded is None else padded.padding
            if padded is None or padding is None or bare[0].member.term in seen:
                continue
            seen.update(cut.member.term for cut in bare)
            names = ", ".join(f"`{shown(cut.member)}`" for cut in bare)
            yield view.finding(
                RULE,
                bare[0].member.node,
                f"`{shown(padded.member)}` was padded{place(view, padding.term)} before it was cut"
                f"{place(view, padded.cut.term)}, but {names}, cut alike, {'was' if len(bare) == 1 else 'were'} not, so "
                "the last part has fewer rows; pad all of them",
                notes=[(padding.term.node, "padded here"), (padded.cut.term.node, "cut here")],
            )
            break
    if not seen:
        yield from _entries(view)


def _entries(view: View) -> Iterator[Finding]:
    """Entries of a batch, also where they do not leave together."""
    for found in unpadded_entries(view):
        if found.cut.node is not None:
            yield view.finding(
                RULE,
                found.cut.node,
                f"{named(view, found.entry)} is cut like the other entries of the batch, but they were padded"
                f"{place(view, found.padding)} before, so the last part has fewer rows; pad all of them",
                notes=[(found.padding.node, "padded here"), (found.padded_cut.node, "cut here")],
            )


def _groups(view: View) -> Iterator[Sequence[Argument]]:
    for company in companies(view):
        members = [inner for member in company.members for inner in _spread(view, member)]
        cut = [
            member for member in members if any(term.op in {"slice", "chunk", "narrow"} for term in member.term.walk())
        ]
        if len(cut) > 1:
            yield cut


def _spread(view: View, member: Argument) -> Iterator[Argument]:
    """The values of a tuple display, or the value itself."""
    elements = getattr(member.node, "elts", None)
    if member.term.op == "tuple" and elements is not None and len(elements) == len(member.term.args):
        for node, term in zip(elements, member.term.args, strict=True):
            name = name_of(node)
            yield Argument(view.catalogue.role_of(name) or "", name, term, node)
    else:
        yield member


def _cut(member: Argument, term: Term) -> _Cut | None:
    root, changes = traced(term)
    if not changes or changes[-1].kind not in {"slice", "shard"} or any(change.kind == "other" for change in changes):
        return None
    return _Cut(member, root, tuple(changes[:-1]), changes[-1])


def _parted(cuts: Sequence[_Cut | None]) -> tuple[_Cut | None, Sequence[_Cut]]:
    """A padded value, and the values that were cut like it without padding."""
    found = [cut for cut in cuts if cut is not None]
    for padded in found:
        if padded.padding is None:
            continue
        alike = [other for other in found if other.cut.same_as == padded.cut.same_as and other.root is not padded.root]
        bare = [other for other in alike if not other.before and _belongs(padded, other)]
        if bare:
            return padded, bare
    return None, ()


def _belongs(padded: _Cut, bare: _Cut) -> bool:
    """Whether the cut is one of the padded rows: it divides their number, or they were padded for just this division."""
    padding = padded.padding
    if padding is None:
        return False
    if padded.cut.kind == "slice":
        whole = padded.cut.term.args[0]
        return any(_counts(inner, whole) for end in padded.cut.detail for inner in end.walk())
    world = padded.cut.detail[0]
    is_for_it = any(inner.op == "Mod" and inner.args[1] is world for size in padding.detail for inner in size.walk())
    return is_for_it and (is_per_row(bare.member) or _PER_ROW.search(bare.member.name) is not None)


def _counts(size: Term, whole: Term) -> bool:
    length = length_of(size)
    return length is not None and [part.key for part in length.rows.flat] == [part.key for part in rows_of(whole).flat]


_SHARD = (
    "    width = ids.shape[1] // world\n    mine = slice(rank * width, (rank + 1) * width)\n"
    "    return {'input_ids': ids[:, mine], 'position_ids': pos[:, mine]}\n"
)
_HEAD = "import torch\nimport torch.nn.functional as F\n\n\n"

RULE = Rule(
    "VL330",
    "unpadded-before-common-cut",
    "stable",
    __doc__,
    check,
    valid=(
        # Another object has its own size.
        "import torch.nn.functional as F\n\n\ndef f(model, batch, images, n, rank):\n"
        "    ids, labels = batch['input_ids'], batch['labels']\n    extra = -ids.shape[1] % n\n"
        "    ids = F.pad(ids, (0, extra)).chunk(n, dim=1)[rank]\n    labels = F.pad(labels, (0, extra)).chunk(n, dim=1)[rank]\n"
        "    pixels = images['pixels'].chunk(n, dim=1)[rank]\n    return model(ids, pixels).sum() + labels.sum()\n",
        f"{_HEAD}def shard(ids, pos, world, rank):\n    pad = -ids.shape[1] % world\n"
        f"    ids, pos = F.pad(ids, (0, pad)), F.pad(pos, (0, pad))\n{_SHARD}",
        f"{_HEAD}def shard(ids, pos, world, rank):\n    width = ids.shape[1] // world\n    mine = slice(rank * width, None)\n"
        "    return {'input_ids': F.pad(ids, (0, 8))[:, mine], 'position_ids': pos[:, mine]}\n",
        f"{_HEAD}def shard(x, context, world, rank):\n    x = F.pad(x, (0, 0, 0, -x.shape[1] % world))\n"
        "    return x.chunk(world, dim=1)[rank], context.chunk(world, dim=1)[rank]\n",
    ),
    invalid=(
        # Entries that do not leave together, one of them shifted before it is padded.
        Invalid(
            "import torch.nn.functional as F\n\n\ndef loss(model, score, batch, n, rank):\n"
            "    ids, labels, scale = batch['input_ids'], batch['labels'], batch['loss_scale']\n"
            "    extra = -ids.shape[1] % n\n    ids = F.pad(ids, (0, extra))\n    labels = F.pad(labels[:, 1:], (0, extra + 1))\n"
            "    ids = ids.chunk(n, dim=1)[rank]\n    labels = labels.chunk(n, dim=1)[rank]\n"
            "    scale = scale.chunk(n, dim=1)[rank]\n    value = score(model(ids).flatten(0, 1), labels.flatten())\n"
            "    return (value * scale.flatten()).sum()\n",
            rows=(11,),
        ),
        Invalid(
            f"{_HEAD}def shard(ids, pos, world, rank):\n    pad = -ids.shape[1] % world\n    if pad:\n"
            f"        ids = F.pad(ids, (0, pad))\n{_SHARD}",
            rows=(11,),
        ),
        Invalid(
            f"{_HEAD}def shard(batch, world, rank):\n    ids, pos = batch['input_ids'], batch['position_ids']\n"
            "    rest = (world - ids.shape[1] % world) % world\n"
            f"    ids = torch.cat([ids, ids.new_zeros(1, rest)], dim=1)\n{_SHARD}",
            rows=(11,),
        ),
        Invalid(
            f"{_HEAD}class Block:\n    def shard(self, x, cos, sin, group):\n        extra = -x.size(1) % group.size\n"
            "        if extra:\n            x = F.pad(x, (0, 0, 0, extra))\n"
            "        x = x.chunk(group.size, dim=1)[group.rank]\n"
            "        cos = cos.chunk(group.size, dim=0)[group.rank]\n"
            "        sin = sin.chunk(group.size, dim=0)[group.rank]\n        return x, (cos, sin)\n",
            rows=(13,),
        ),
    ),
)
