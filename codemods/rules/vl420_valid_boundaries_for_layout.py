"""Rows that lie in a padded layout are rotated or convolved with the boundaries of the valid rows.

### What it does
Looks at calls that get both the valid boundaries and those of the padded layout (`cu_seqlens_q` and `cu_seqlens_q_padded`). Reports
an earlier rotary embedding or convolution of the same queries or keys that was given the valid ones.

### Why is this bad?
A position depends on where a segment starts in memory. With padding between segments the valid boundaries say this for the first
segment only; the phases of all others drift.

### Example
```python
q = self.rotary(q, freqs, cu_seqlens=packed.cu_seqlens_q)
out = self.core(q, k, v, cu_seqlens_q=packed.cu_seqlens_q, cu_seqlens_q_padded=packed.cu_seqlens_q_padded)
```

### Use instead
```python
q = self.rotary(q, freqs, cu_seqlens=packed.cu_seqlens_q_padded)
out = self.core(q, k, v, cu_seqlens_q=packed.cu_seqlens_q, cu_seqlens_q_padded=packed.cu_seqlens_q_padded)
```

### Fix safety
Unsafe: the computed values change, which is the purpose. Boundaries that an object or dict holds may be None where nothing is
padded; the fix keeps the valid ones for that case.

### References
- [TransformerEngine: packed sequences with padding](https://github.com/NVIDIA/TransformerEngine)
"""

import ast
import re
from collections.abc import Iterator

from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding, Fix, Replace
from shapecheck.codemods.queries.callee import optional
from shapecheck.codemods.queries.in_scope import reads
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, Consumer, View

# Operations on rows that depend on where each segment starts.
_BY_PLACE = re.compile(r"rot(ary)?(_|$)|rotary|rope|conv|token_shift", re.IGNORECASE)
# What cuts the rows of all segments for the ranks: the layout is what they are cut from.
_PARTITIONS = re.compile(r"partitioned_indices|partition_indices|shard_indices")


def check(view: View) -> Iterator[Finding]:
    """VL420."""
    reported: set[ast.AST] = set()
    for consumer in view.consumers:
        for side in ("q", "k"):
            pair = _two_kinds(consumer, side)
            if pair is None:
                continue
            valid, layout = pair
            for call in view.calls:
                node = _given(call, valid.term)
                if (
                    node is None
                    or call.node in reported
                    or not (_partitions(call) or _precedes(call, consumer, layout.term))
                ):
                    continue
                reported.add(call.node)
                right = ast.unparse(layout.node)
                yield view.finding(
                    RULE,
                    node,
                    f"`{call.name}` works on rows that lie in the layout of `{right}` (line {layout.node.lineno}), but gets the "  # type: ignore[attr-defined]
                    f"boundaries of the valid rows, {written(node)}: pass `{right}`",
                    notes=[(layout.node, "boundaries of the layout"), (valid.node, "boundaries of the valid rows")],
                    fix=_fix(view, call, node, pair),
                )


def _fix(view: View, call: Call, node: ast.expr, pair: tuple[Argument, Argument]) -> Fix | None:
    """Passes the layout where it is in scope, the valid boundaries where it may be None."""
    if not all(reads(view, call.node, given, one.term) for given, one in zip((node, pair[1].node), pair, strict=True)):
        return None
    right = view.source.code(pair[1].node)
    term = pair[1].term
    may_be_none = term.op in {"attr", "item"} or (
        term.op == "parameter" and term.args[0] in optional(view.function.node)
    )
    code = f"{right} if {right} is not None else {view.source.code(node)}" if may_be_none else right
    return view.fix(f"Pass `{right}`", Replace(view.source.span(node), code))


def _two_kinds(consumer: Consumer, side: str) -> tuple[Argument, Argument] | None:
    valid, layout = consumer.roles.get(f"bounds_{side}"), consumer.roles.get(f"padded_{side}")
    if valid is None or layout is None or valid.term is layout.term or "const" in {valid.term.op, layout.term.op}:
        return None
    # `padded if padded is not None else valid` is a layout of its own.
    return None if layout.term in set(valid.term.walk()) else (valid, layout)


def _given(call: Call, term: Term) -> ast.expr | None:
    """The argument of a rotary embedding, a convolution or a partition that is `term`."""
    if not _BY_PLACE.search(call.name) and not _partitions(call):
        return None
    for keyword in call.node.keywords:
        if keyword.arg is not None and call.kwargs.get(keyword.arg) is term:
            return keyword.value
    return next((call.arg_node(at) for at, given in enumerate(call.args) if given is term), None)


def _partitions(call: Call) -> bool:
    return _PARTITIONS.search(call.name) is not None


def _precedes(call: Call, consumer: Consumer, layout: Term) -> bool:
    """Whether the result of a call reaches the consumer, on a path where the layout may be padded."""
    if any(layout in set(condition.walk()) for condition, _ in call.context):
        return False
    arguments = [
        *consumer.call.args[:3],
        *(argument.term for role, argument in consumer.roles.items() if role in {"q", "k", "qkv", "kv"}),
    ]
    return any(term is not None and call.result in set(term.walk()) for term in arguments)


RULE = Rule(
    "VL420",
    "valid-boundaries-for-layout",
    "stable",
    __doc__,
    check,
    valid=(
        "def f(core, rotary, q, k, v, p):\n"
        "    q = rotary(q, cu_seqlens=p.cu_seqlens_q_padded)\n"
        "    k = rotary(k, cu_seqlens=p.cu_seqlens_kv_padded)\n"
        "    return core(q, k, v, cu_seqlens_q=p.cu_seqlens_q, cu_seqlens_kv=p.cu_seqlens_kv,\n"
        "                cu_seqlens_q_padded=p.cu_seqlens_q_padded, cu_seqlens_kv_padded=p.cu_seqlens_kv_padded)\n",
        "def f(core, rotary, q, k, v, p):\n"
        "    if p.cu_seqlens_q_padded is None:\n"
        "        q = rotary(q, cu_seqlens=p.cu_seqlens_q)\n"
        "    else:\n"
        "        q = rotary(q, cu_seqlens=p.cu_seqlens_q_padded)\n"
        "    return core(q, k, v, cu_seqlens_q=p.cu_seqlens_q, cu_seqlens_q_padded=p.cu_seqlens_q_padded)\n",
        "def f(core, rotary, q, k, v, p):\n"
        "    q = rotary(q, cu_seqlens=p.cu_seqlens_q)\n"
        "    return core(q, k, v, cu_seqlens_q=p.cu_seqlens_q, cu_seqlens_q_padded=None)\n",
    ),
    invalid=(
        Invalid(
            "import transformer_engine_torch as tex\nfrom megatron.core.packed_seq_params import PackedSeqParams\n\n\n"
            "def cut(tokens, cu, cu_padded, size, rank):\n"
            "    index = tex.thd_get_partitioned_indices(cu, tokens.numel(), size, rank)\n"
            "    params = PackedSeqParams(cu_seqlens_q=cu, cu_seqlens_q_padded=cu_padded)\n"
            "    return tokens[index], params\n",
            rows=(6,),
            fixed="import transformer_engine_torch as tex\nfrom megatron.core.packed_seq_params import PackedSeqParams\n\n\n"
            "def cut(tokens, cu, cu_padded, size, rank):\n"
            "    index = tex.thd_get_partitioned_indices(cu_padded, tokens.numel(), size, rank)\n"
            "    params = PackedSeqParams(cu_seqlens_q=cu, cu_seqlens_q_padded=cu_padded)\n"
            "    return tokens[index], params\n",
        ),
        Invalid(
            "def f(core, rotary, q, k, v, p):\n"
            "    q = rotary(q, cu_seqlens=p.cu_seqlens_q)\n"
            "    return core(q, k, v, cu_seqlens_q=p.cu_seqlens_q, cu_seqlens_q_padded=p.cu_seqlens_q_padded)\n",
            rows=(2,),
            fixed="def f(core, rotary, q, k, v, p):\n"
            "    q = rotary(q, cu_seqlens=p.cu_seqlens_q_padded if p.cu_seqlens_q_padded is not None else p.cu_seqlens_q)\n"
            "    return core(q, k, v, cu_seqlens_q=p.cu_seqlens_q, cu_seqlens_q_padded=p.cu_seqlens_q_padded)\n",
        ),
        Invalid(
            "from transformer_engine.pytorch.cpp_extensions import fused_attn_fwd\n\n\n"
            "def f(conv, q, k, v, n, valid, layout, t, b):\n"
            "    k = conv(k, valid).view(-1, 8, 64)\n"
            "    return fused_attn_fwd(True, n, n, valid, valid, q, k, v, t, b, cu_seqlens_kv_padded=layout)\n",
            rows=(5,),
            fixed="from transformer_engine.pytorch.cpp_extensions import fused_attn_fwd\n\n\n"
            "def f(conv, q, k, v, n, valid, layout, t, b):\n"
            "    k = conv(k, layout).view(-1, 8, 64)\n"
            "    return fused_attn_fwd(True, n, n, valid, valid, q, k, v, t, b, cu_seqlens_kv_padded=layout)\n",
        ),
    ),
    fixable=True,
)
