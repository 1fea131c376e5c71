"""Cross attention gives its keys the boundaries of its queries.

### What it does
Reports cross attention (by the name of the function, its class, or the value that the keys come from; or because the
longest key segment was taken from lengths of the keys) whose key boundaries were measured on the queries.

### Why is this bad?
The keys come from another sequence with a length of its own. Where it is longer, keys are ignored; where it is shorter,
the kernel reads past the end.

### Example
```python
def cross_attention(query, key, value):
    bounds = torch.arange(0, (batch + 1) * query.shape[1], query.shape[1])
    return flash_attn_varlen_func(query.flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1), bounds, bounds, n, n)
```

### Use instead
```python
def cross_attention(query, key, value):
    bounds_q = torch.arange(0, (batch + 1) * query.shape[1], query.shape[1])
    bounds_k = torch.arange(0, (batch + 1) * key.shape[1], key.shape[1])
    return flash_attn_varlen_func(query.flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1), bounds_q, bounds_k, n, m)
```

### Fix safety
No fix: the maximum of the keys has to change too.

### References
- [vllm-omni#3525](https://github.com/vllm-project/vllm-omni/pull/3525)
"""

import re
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import length_of, lens_of, plain
from shapecheck.codemods.engine.describe.maxima import Max, max_of
from shapecheck.codemods.engine.describe.rows import rows_of
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import measured, place, shown
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, Consumer, View

_CROSS = re.compile(r"cross|(^|_)(context|encoder|memory|memories)(_|$)", re.IGNORECASE)


def check(view: View) -> Iterator[Finding]:
    """VL314."""
    for consumer in view.consumers:
        get = consumer.roles.get
        q, k, meta = get("q"), get("k") or get("kv"), get("bounds_k")
        if q is None or k is None or meta is None:
            continue
        other = _other_lengths(consumer)
        if other is not None:
            yield view.finding(
                RULE,
                meta.node,
                f"`{shown(meta)}` counts the segments of the queries, while `{shown(other)}` is the longest of other lengths, "
                "those of the keys; derive the boundaries of the keys from them",
                notes=[(other.node, "longest of the keys")],
            )
            continue
        of_q, of_k = _root(q.term), _root(k.term)
        counted = measured(meta.term)
        if of_q is None or of_k is None or of_q is of_k or counted is None or len(counted.parts) != 1:
            continue
        part = counted.parts[0]
        if (
            part.root is not of_q
            or part.changes
            or not (_is_cross(view, of_k) or _counts(consumer, of_k, counted.axis))
        ):
            continue
        yield view.finding(
            RULE,
            meta.node,
            f"the keys `{shown(k)}` come from another sequence than the queries, but `{shown(meta)}` was measured on "
            f"the queries{place(view, counted.source)}; measure the keys",
            notes=[(counted.source.node, "queries measured here")],
        )


def _root(rows: Term) -> Term | None:
    found = rows_of(rows)
    return found.parts[0].root if len(found.parts) == 1 and found.parts[0].root.op == "parameter" else None


def _is_cross(view: View, keys: Term) -> bool:
    owner = view.function.owner
    names = [view.function.node.name, owner.name if owner is not None else "", str(keys.args[0])]
    return any(_CROSS.search(name) for name in names)


def _other_lengths(consumer: Consumer) -> Argument | None:
    """The longest key segment, if it was taken from other lengths than those that both boundaries are the sums of."""
    get = consumer.roles.get
    bounds_q, bounds_k, max_q, max_k = get("bounds_q"), get("bounds_k"), get("max_q"), get("max_k")
    if bounds_q is None or bounds_k is None or max_q is None or max_k is None or bounds_q.term is not bounds_k.term:
        return None
    bounds, of_q, of_k = bounds_of(bounds_q.term), max_of(max_q.term), max_of(max_k.term)
    if bounds is None or bounds.kind != "lens" or of_q is None or of_k is None or {of_q.kind, of_k.kind} != {"lens"}:
        return None
    lens = plain(bounds.source)
    is_other = of_k.source is not lens and of_k.source.op in {"parameter", "attr"} and lens.op == of_k.source.op
    return max_k if of_q.source is lens and (is_other or _are_keys(consumer, lens, of_k)) else None


def _are_keys(consumer: Consumer, lens: Term, longest: Max) -> bool:
    """Whether a maximum was taken over the segments that the keys were joined from, and the boundaries count others."""
    rows, counted = consumer.roles.get("k") or consumer.roles.get("kv"), lens_of(lens)
    if rows is None or counted is None or longest.lens is None or not (counted.kind == longest.lens.kind == "parts"):
        return False
    keys = [part.key for part in rows_of(rows.term).flat]
    return [part.key for part in longest.lens.parts] == keys and not {part.root for part in counted.parts} & {
        part.root for part in longest.lens.parts
    }


def _counts(consumer: Consumer, keys: Term, axis: int | str | None) -> bool:
    """Whether the longest key segment is measured on the keys: then their length may be another one."""
    longest = consumer.roles.get("max_k")
    length = None if longest is None else length_of(longest.term)
    return length is not None and length.axis == axis and [part.root for part in length.rows.parts] == [keys]


_HEAD = "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\n"
_CALL = "    return flash_attn_varlen_func(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), {0}, {1}, n, n)\n"
_BOUNDS = "    n, m = q.shape[1], k.shape[1]\n    b = torch.arange(0, (size + 1) * n, n, dtype=torch.int32)\n"

RULE = Rule(
    "VL314",
    "keys-counted-by-queries",
    "stable",
    __doc__,
    check,
    valid=(
        f"{_HEAD}def self_attention(q, k, v, size):\n{_BOUNDS}{_CALL.format('b', 'b')}",
        f"{_HEAD}def cross_attention(q, k, v, size):\n"
        f"{_BOUNDS}    c = torch.arange(0, (size + 1) * m, m, dtype=torch.int32)\n"
        f"{_CALL.format('b', 'c').replace('n, n', 'n, m')}",
    ),
    invalid=(
        Invalid(f"{_HEAD}def cross_attention(q, k, v, size):\n{_BOUNDS}{_CALL.format('b', 'b')}", rows=(8,)),
        Invalid(
            f"{_HEAD}class A:\n    def forward(self, x, context, n):\n"
            f"        b = torch.tensor([0, x.shape[0]], dtype=torch.int32)\n"
            "        k = self.to_k(context)\n        return flash_attn_varlen_func(self.to_q(x), k, k, b, b, n, n)\n",
            rows=(9,),
        ),
        Invalid(
            f"{_HEAD}def attend(q, k, v, size):\n{_BOUNDS}{_CALL.format('b', 'b').replace('n, n', 'n, k.size(1)')}",
            rows=(8,),
        ),
    ),
)
