"""Rows were cut to a half or to the piece of one rank, their boundaries were not.

### What it does
Compares the calls of packed kernels in a function. Reports rows that were cut while the boundaries beside them are the ones that
another call passes with the uncut rows; queries that were cut to the piece of this rank beside whole keys, and keys that were pooled
from the rows of the queries or gathered from all ranks, where one array of boundaries is passed for both.

### Why is this bad?
The boundaries count rows that are no longer there. Kernels read and write behind the end of the tensor.

### Example
```python
first = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, longest, longest)
second = flash_attn_varlen_func(q[second_half], k, v, cu_seqlens, cu_seqlens, longest, longest)
```

### Use instead
```python
half = cu_seqlens // 2
second = flash_attn_varlen_func(q[second_half], k, v, half, cu_seqlens, longest // 2, longest)
```

### Fix safety
No fix.

### References
- [ring-flash-attention](https://github.com/zhuzilin/ring-flash-attention)
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.describe.rows import Change, Part, rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import partings
from shapecheck.codemods.queries.shards import is_shard, is_trim
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, Consumer, View

_GATHERS = re.compile(r"(^|[._])(all_?gather|gather_(seq|forward|along)\w*)", re.IGNORECASE)


@dataclass(frozen=True)
class _Use:
    """Rows and the boundaries beside them in one call."""

    call: Consumer
    part: Part
    rows: Argument
    bounds: Argument


def check(view: View) -> Iterator[Finding]:
    """VL504."""
    uses = [use for consumer in view.consumers for use in _uses(consumer)]
    halved = any(_is_halved(use) for use in uses)
    reported: set[int] = set()
    for use in uses:
        for whole in uses:
            if id(use.rows.node) not in reported and (cut := _cut(whole, use, halved)) is not None:
                reported.add(id(use.rows.node))
                yield view.finding(
                    RULE,
                    use.bounds.node,
                    f"{written(use.rows.node)} is a part of {written(whole.rows.node)}{view.line(cut.term.node)}, but "
                    f"{written(use.bounds.node)} still counts all of its rows, as in line {whole.call.call.node.lineno}: pass the "
                    "boundaries of the part",
                    notes=[
                        (cut.term.node, "rows are cut here"),
                        (whole.rows.node, "the same boundaries describe the whole"),
                    ],
                )
    for consumer in view.consumers:
        gathered = _gathered_keys(consumer)
        if gathered is not None:
            keys, of_keys, call = gathered
            yield view.finding(
                RULE,
                of_keys.node,
                f"{written(keys.node)} was gathered from all ranks{view.line(call.node)} and the queries are those of one, but "
                f"{written(of_keys.node)} is given for both: pass the boundaries of all rows for the keys",
                notes=[(call.node, "gathered here")],
            )
            continue
        cut = _local_queries(consumer)
        bounds, queries = consumer.roles.get("bounds_q"), consumer.roles.get("q")
        if cut is not None and bounds is not None and queries is not None and id(queries.node) not in reported:
            yield view.finding(
                RULE,
                bounds.node,
                f"{written(queries.node)} holds the rows of one rank{view.line(cut.term.node)} and the keys those of all ranks, but "
                f"{written(bounds.node)} is given for both: build the boundaries of the local queries",
                notes=[(cut.term.node, "the queries are cut here")],
            )
        elif (fewer := _fewer(consumer)) is not None:
            changed, other, bounds, change = fewer
            if any(parting.meta.term is bounds.term for parting in partings(view)):
                continue  # the lengths tell: VL303's subject
            what = "pooled" if change.kind == "pool" else "cut"
            yield view.finding(
                RULE,
                bounds.node,
                f"{written(changed.node)} was {what}{view.line(change.term.node)} and {written(other.node)} was not, but both get the "
                f"same boundaries, {written(bounds.node)}: build boundaries from the lengths of the {what} segments",
                notes=[(change.term.node, f"rows are {what} here")],
            )


def _uses(consumer: Consumer) -> Iterator[_Use]:
    for position, (_, known, bounds, _) in enumerate(consumer.sides()):
        rows = known or _positional(consumer, position)
        if rows is None or bounds is None or bounds.term.op == "const":
            continue
        found = rows_of(rows.term)
        if found.known and len(found.flat) == 1 and not (found.changes and len(found.parts) > 1):
            yield _Use(consumer, found.flat[0], rows, bounds)


def _positional(consumer: Consumer, position: int) -> Argument | None:
    """The rows of a callee that is not in the catalogue: only compared with other calls of the same."""
    if consumer.sink is not None or position >= len(consumer.call.args):
        return None
    term, node = consumer.call.args[position], consumer.call.arg_node(position)
    return None if term is None or node is None else Argument("x", "", term, node)


def _is_halved(use: _Use) -> bool:
    """Picked rows beside divided boundaries: picks in this function take a share of every segment."""
    bounds = plain(use.bounds.term)
    return bounds.op == "FloorDiv" and bool(use.part.changes) and use.part.changes[-1].kind == "pick"


def _cut(whole: _Use, use: _Use, halved: bool) -> Change | None:
    """The operation that cut the rows of `use` out of those of `whole`, if the boundaries are the same."""
    if whole.call.call.callee is not use.call.call.callee or whole.part.root is not use.part.root:
        return None
    if plain(whole.bounds.term) is not plain(use.bounds.term):
        return None
    before, after = whole.part.changes, use.part.changes
    if len(after) <= len(before) or [c.same_as for c in after[: len(before)]] != [c.same_as for c in before]:
        return None
    added = after[len(before) :]
    if any(is_trim(change) for change in added):
        return None
    for change in added:
        if change.kind in {"shard", "slice"} or (change.kind == "pick" and halved):
            return change
    return None


def _local_queries(consumer: Consumer) -> Change | None:
    """The cut of queries by rank, beside keys that are not cut."""
    get = consumer.roles.get
    queries, keys, bounds_q, bounds_k = get("q"), get("k"), get("bounds_q"), get("bounds_k")
    if queries is None or keys is None or bounds_q is None or bounds_k is None or bounds_q.term is not bounds_k.term:
        return None
    made = bounds_of(bounds_q.term)
    if made is not None and made.divisor is not None:
        return None
    cut = _last_cut(queries.term)
    return cut if cut is not None and _last_cut(keys.term) is None and not rows_of(keys.term).all_changes else None


def _gathered_keys(consumer: Consumer) -> tuple[Argument, Argument, Term] | None:
    """Keys that a collective made from the rows of the queries, where both sides have the same boundaries."""
    get = consumer.roles.get
    queries, keys, bounds_q, bounds_k = get("q"), get("k"), get("bounds_q"), get("bounds_k")
    if queries is None or keys is None or bounds_q is None or bounds_k is None or bounds_q.term is not bounds_k.term:
        return None
    gather = keys.term
    while gather.op == "view":
        gather = gather.args[1]
    if gather.op != "call" or not _GATHERS.search(gather.args[0]):
        return None
    own = _only_part(queries.term)
    values = [arg for arg in gather.args[1:] if isinstance(arg, Term)]
    same = any(own is not None and (part := _only_part(arg)) is not None and part.key == own.key for arg in values)
    return (keys, bounds_k, gather) if same else None


def _fewer(consumer: Consumer) -> tuple[Argument, Argument, Argument, Change] | None:
    """Queries or keys that are the rows of the other side with some gone, where both sides have the same boundaries."""
    get = consumer.roles.get
    queries, keys, bounds_q, bounds_k = get("q"), get("k"), get("bounds_q"), get("bounds_k")
    if queries is None or keys is None or bounds_q is None or bounds_k is None or bounds_q.term is not bounds_k.term:
        return None
    parts = [_only_part(term) for term in _unwrapped(queries.term, keys.term)]
    if parts[0] is None or parts[1] is None or parts[0].root is not parts[1].root:
        return None
    # All pieces of a stream, joined again, are the stream.
    histories = [[change for change in part.changes if change.kind != "piece"] for part in parts if part is not None]
    for (few, many), (changed, other), bounds in (
        (histories, (queries, keys), bounds_q),
        (histories[::-1], (keys, queries), bounds_k),
    ):
        added = few[len(many) :]
        if added and [one.same_as for one in few[: len(many)]] == [one.same_as for one in many]:
            found = next((change for change in added if _drops_rows(change)), None)
            if found is not None and not any(is_trim(change) for change in added):
                return changed, other, bounds, found
    return None


def _only_part(rows: Term) -> Part | None:
    found = rows_of(rows)
    return found.flat[0] if found.known and len(found.flat) == 1 else None


def _unwrapped(one: Term, other: Term) -> tuple[Term, Term]:
    """Two values without the calls that both went through."""
    while one.op == other.op and len(one.args) == len(other.args):
        differing = [(a, b) for a, b in zip(one.args, other.args, strict=True) if a != b]
        if (
            len(differing) != 1
            or one.op not in {"call", "view"}
            or not all(isinstance(part, Term) for part in differing[0])
        ):
            break
        one, other = differing[0]
    return one, other


def _drops_rows(change: Change) -> bool:
    if change.kind in {"pool", "shard"}:
        return True
    term = change.term
    return change.kind == "slice" and term.op == "item" and term.args[1].op == "slice"


def _last_cut(rows: Term) -> Change | None:
    changes = rows_of(rows).all_changes
    return changes[-1] if changes and is_shard(changes[-1]) and not is_trim(changes[-1]) else None


_HEAD = "from flash_attn import flash_attn_varlen_func\n\n\n"

RULE = Rule(
    "VL504",
    "whole-boundaries-for-cut-rows",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "class Attention:\n    def forward(self, x, cu, cu_all, n, total):\n"
        "        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)\n"
        "        k, v = self.all_gather(k), self.all_gather(v)\n"
        "        return flash_attn_varlen_func(q, k, v, cu, cu_all, n, total)\n",
        _HEAD + "def attend(x, q_proj, k_proj, v_proj, all_gather, cu, n):\n"
        "    q, k, v = (all_gather(p(x)) for p in (q_proj, k_proj, v_proj))\n"
        "    return flash_attn_varlen_func(q, k, v, cu, cu, n, n)\n",
        _HEAD + "def f(x, heads, cu, n):\n"
        "    q, k, v = x[:, :heads], x[:, heads : 2 * heads], x[:, 2 * heads :]\n"
        "    return flash_attn_varlen_func(q, k, v, cu, cu, n, n)\n",
        "import torch\n" + _HEAD + "def f(x, norm, q_proj, k_proj, v_proj, lens, cu, n):\n"
        "    y = torch.cat([norm(s) for s in x.split(lens)])\n"
        "    return flash_attn_varlen_func(q_proj(x), k_proj(y), v_proj(y), cu, cu, n, n)\n",
        _HEAD + "def f(q, k, v, cu_seqlens, n, half):\n"
        "    a = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, n, n)\n"
        "    cut = cu_seqlens // 2\n"
        "    return a, flash_attn_varlen_func(q[half], k, v, cut, cu_seqlens, n // 2, n)\n",
        _HEAD + "def f(q, k, v, cu_seqlens, n, total):\n"
        "    if total is None:\n"
        "        return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, n, n)\n"
        "    q = q[:total]\n"
        "    return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, n, n)\n",
        _HEAD + "def f(q, k, v, cu_seqlens, n, order):\n"
        "    a = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, n, n)\n"
        "    return a, flash_attn_varlen_func(q[order], k, v, cu_seqlens, cu_seqlens, n, n)\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "class Attention:\n    def forward(self, x, cu, n, total):\n"
            "        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)\n"
            "        k, v = self.all_gather(k), self.all_gather(v)\n"
            "        return flash_attn_varlen_func(q, k, v, cu, cu, n, total)\n",
            rows=(8,),
        ),
        Invalid(
            "import torch\n" + _HEAD + "def f(x, q_proj, k_proj, v_proj, lens, cu):\n"
            "    short = torch.cat([s.unflatten(0, (-1, 4)).mean(1) for s in x.split(lens)])\n"
            "    q, k, v = q_proj(x), k_proj(short), v_proj(short)\n"
            "    return flash_attn_varlen_func(q, k, v, cu, cu, max(lens), max(lens))\n",
            rows=(8,),
        ),
        Invalid(
            _HEAD + "def f(q, k, v, cu_seqlens, n, front, back):\n"
            "    cut = cu_seqlens // 2\n"
            "    a = flash_attn_varlen_func(q, k[front], v[front], cu_seqlens, cut, n, n // 2)\n"
            "    return a, flash_attn_varlen_func(q[back], k, v, cu_seqlens, cu_seqlens, n, n)\n",
            rows=(7,),
        ),
        Invalid(
            _HEAD + "def f(q, k, v, cu_seqlens, n, step, middle):\n"
            "    if step == 0:\n"
            "        return flash_attn_varlen_func(q, k, v, cu_seqlens_q=cu_seqlens, cu_seqlens_k=cu_seqlens)\n"
            "    q = q[middle:]\n"
            "    return flash_attn_varlen_func(q, k, v, cu_seqlens_q=cu_seqlens, cu_seqlens_k=cu_seqlens)\n",
            rows=(8,),
        ),
        Invalid(
            _HEAD + "def f(q, k, v, cu_seqlens, n, group, gather):\n"
            "    rank, rows = group.rank(), q.shape[0] // group.size()\n"
            "    local = q[rank * rows : (rank + 1) * rows]\n"
            "    return flash_attn_varlen_func(local, gather(k), gather(v), cu_seqlens, cu_seqlens, n, n)\n",
            rows=(7,),
        ),
    ),
)
