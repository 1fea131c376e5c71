"""Metadata of the queries is given for the keys and the other way round.

### What it does
Compares the rows in the `q` and `k` slots of a call with the boundaries, maxima, lengths and tags for each side: where they come from
and what they are called. Reports a pair that crosses in both directions. Also reports boundaries and maxima that cross each other:
the maximum for `q` is the largest length of the `k` boundaries and vice versa.

### Why is this bad?
Queries and keys have different numbers of rows in cross attention. Swapped boundaries read other samples' rows, or rows that do not
exist.

### Example
```python
out = flash_attn_varlen_func(image_q, text_k, text_v, text_bounds, image_bounds, image_max, text_max)
```

### Use instead
```python
out = flash_attn_varlen_func(image_q, text_k, text_v, image_bounds, text_bounds, image_max, text_max)
```

### Fix safety
Unsafe: the computed values change, which is the purpose. No fix where only boundaries and maxima cross each other: either may be
the wrong ones.

### References
- [flash-attention: variable-length interface](https://github.com/Dao-AILab/flash-attention)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.describe.rows import roots
from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding, Fix, Replace
from shapecheck.codemods.queries.in_scope import reached_once
from shapecheck.codemods.queries.kinds import kind_of, kind_of_role
from shapecheck.codemods.queries.measured import of_bounds, of_max
from shapecheck.codemods.queries.together import Group, groups
from shapecheck.codemods.queries.words import side_words
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, Consumer, View

_PAIRS = ("bounds", "max", "lens", "ends", "padded", "tags")


def check(view: View) -> Iterator[Finding]:
    """VL412."""
    found: set[ast.AST] = set()
    for consumer in view.consumers:
        rows = _rows(consumer) or _later_rows(view, consumer)
        if rows is None:
            continue
        crossing = [pair for pair in _pairs(view, consumer.roles) if _crosses(rows, pair)]
        if crossing:
            found.add(consumer.call.node)
            reason = f"the queries are {_side(rows[0])} and the keys {_side(rows[1])}"
            yield _finding(view, crossing[0], reason, _swap(view, consumer.call.node, crossing[0]))
    for group in groups(view):
        if group.node not in found and (pair := _against_maxima(group)) is not None:
            # No fix: the maxima may be the wrong ones.
            yield _finding(view, pair, "the maxima beside them are the other way round", None)


def _rows(consumer: Consumer) -> tuple[Argument, Argument] | None:
    queries, keys = (rows for _, rows, _, _ in consumer.sides())
    if consumer.sink is None and queries is None and len(consumer.call.args) > 1:
        return _positional(consumer.call)
    return None if queries is None or keys is None or queries is keys else (queries, keys)


def _later_rows(view: View, consumer: Consumer) -> tuple[Argument, Argument] | None:
    """The queries and keys of the one call that gets a mask or metadata object made here."""
    made = consumer.call.result
    users = [call for call in view.calls if call is not consumer.call and made in {*call.args, *call.kwargs.values()}]
    if len(users) != 1 or len(users[0].args) < 2 or consumer.roles.keys() & {"q", "k", "x", "qkv"}:
        return None
    found = _positional(users[0])
    return None if found is None or made in {argument.term for argument in found} else found


def _positional(call: Call) -> tuple[Argument, Argument] | None:
    """The first two arguments, which are the queries and keys of most attention functions; names decide the rest."""
    found = []
    for position, role in enumerate(("q", "k")):
        term, node = call.args[position], call.arg_node(position)
        if term is None or node is None:
            return None
        found.append(Argument(role, role, term, node))
    return found[0], found[1]


def _pairs(view: View, roles: dict[str, Argument]) -> Iterator[tuple[Argument, Argument]]:
    for role in _PAIRS:
        one, other = roles.get(f"{role}_q"), roles.get(f"{role}_k")
        if one is None or other is None or one.term is other.term:
            continue
        if _fits(view, one) and _fits(view, other):
            yield one, other


def _fits(view: View, argument: Argument) -> bool:
    """Whether a value may be what its slot expects: other kinds are VL413's subject."""
    kind = kind_of(argument.term, argument.node, view.catalogue)
    return kind is None or kind.name == (kind_of_role(argument.role) or kind.name)


def _crosses(rows: tuple[Argument, Argument], pair: tuple[Argument, Argument]) -> bool:
    of_queries, of_keys = (side_words(argument.node, *roots(argument.term)) for argument in rows)
    first, second = (side_words(argument.node, *_origin(argument)) for argument in pair)
    q_only, k_only = of_queries - of_keys, of_keys - of_queries
    first_only, second_only = first - second, second - first
    return bool(first_only & k_only and second_only & q_only) and not (first_only & q_only or second_only & k_only)


def _origin(argument: Argument) -> Iterator[Term]:
    kind = argument.role.partition("_")[0]
    if kind in {"bounds", "padded", "ends"}:
        yield of_bounds(argument.term).lens
    elif kind == "max" and (measured := of_max(argument.term)) is not None:
        yield measured.lens
    else:
        yield plain(argument.term)


def _against_maxima(group: Group) -> tuple[Argument, Argument] | None:
    """Boundaries whose maxima are paired crosswise."""
    get = group.roles.get
    bounds = get("bounds_q"), get("bounds_k")
    longest = get("max_q"), get("max_k")
    if bounds[0] is None or bounds[1] is None or longest[0] is None or longest[1] is None:
        return None
    of_q, of_k = of_bounds(bounds[0].term), of_bounds(bounds[1].term)
    if of_q != of_k and of_max(longest[0].term) == of_k and of_max(longest[1].term) == of_q:
        return bounds[0], bounds[1]
    return None


def _side(argument: Argument) -> str:
    return f"`{ast.unparse(argument.node)}`"


def _finding(view: View, pair: tuple[Argument, Argument], reason: str, fix: Fix | None) -> Finding:
    one, other = pair
    first, second = ast.unparse(one.node), ast.unparse(other.node)
    return view.finding(
        RULE,
        one.node,
        f"`{first}` is given for the queries and `{second}` for the keys, but {reason}: swap them",
        notes=[(other.node, "given for the keys")],
        fix=fix,
    )


def _swap(view: View, call: ast.Call, pair: tuple[Argument, Argument]) -> Fix | None:
    """Swaps two arguments that are written in the call itself: elsewhere their names may have other values."""
    one, other = (argument.node for argument in pair)
    if not {one, other} <= set(ast.walk(call)) or not reached_once(view, call):
        return None
    source = view.source
    edits = Replace(source.span(one), source.code(other)), Replace(source.span(other), source.code(one))
    return view.fix(f"Swap `{ast.unparse(one)}` and `{ast.unparse(other)}`", *edits)


_HEAD = "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\n"

RULE = Rule(
    "VL412",
    "swapped-query-and-key",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + "def f(text_q, image_kv, text_bounds, image_bounds, n, m):\n"
        "    k, v = image_kv.unbind(1)\n"
        "    return flash_attn_varlen_func(text_q, k, v, text_bounds, image_bounds, n, m)\n",
        _HEAD + "def f(q, k, v, new_bounds, old_bounds, n):\n"
        "    return flash_attn_varlen_func(q, k, v, old_bounds, new_bounds, n, n)\n",
        "def reverse(params, attend, q, k, v):\n"
        "    return attend(k, q, q, cu_seqlens_q=params.cu_seqlens_kv, cu_seqlens_kv=params.cu_seqlens_q)\n",
    ),
    invalid=(
        Invalid(
            _HEAD + "def f(text_q, image_kv, text_bounds, image_bounds, n, m):\n"
            "    k, v = image_kv.unbind(1)\n"
            "    return flash_attn_varlen_func(text_q, k, v, image_bounds, text_bounds, n, m)\n",
            rows=(7,),
            fixed=_HEAD + "def f(text_q, image_kv, text_bounds, image_bounds, n, m):\n"
            "    k, v = image_kv.unbind(1)\n"
            "    return flash_attn_varlen_func(text_q, k, v, text_bounds, image_bounds, n, m)\n",
        ),
        Invalid(
            "from xformers.ops.fmha import BlockDiagonalMask\n\n\ndef f(attend, q, k, v, q_lens, kv_lens):\n"
            "    bias = BlockDiagonalMask.from_seqlens(kv_lens, q_lens)\n"
            "    return attend(q, k, v, attn_bias=bias)\n",
            rows=(5,),
            fixed="from xformers.ops.fmha import BlockDiagonalMask\n\n\ndef f(attend, q, k, v, q_lens, kv_lens):\n"
            "    bias = BlockDiagonalMask.from_seqlens(q_lens, kv_lens)\n"
            "    return attend(q, k, v, attn_bias=bias)\n",
        ),
        Invalid(
            "import torch\n\n\ndef f(own_lens, memory_lens):\n"
            "    zero = own_lens.new_zeros(1)\n"
            "    a = torch.cat([zero, own_lens.cumsum(0)])\n"
            "    b = torch.cat([zero, memory_lens.cumsum(0)])\n"
            "    return dict(\n"
            "        cu_seqlens_q=b,\n"
            "        cu_seqlens_k=a,\n"
            "        max_seqlen_q=own_lens.max(),\n"
            "        max_seqlen_k=memory_lens.max(),\n"
            "    )\n",
            rows=(9,),
        ),
    ),
    fixable=True,
)
