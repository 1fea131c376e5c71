"""One of several like calls does not get the packed metadata that the others get.

### What it does
Reports a call that lacks boundaries, maxima, lengths or tags that a like call in the same function gets: a layer run under activation
checkpointing and without; one function called for queries and for keys; items of two lists of layers; two models run on the same
tokens; one of three or more calls with the same keywords; a convolution in front of a scan that is told the segments, or the scan
behind a convolution that is.

### Why is this bad?
Without its boundaries a packed row is one long sequence: samples attend to each other, and states leak from one into the next.
Nothing crashes, and with one sample per row the results are even right.

### Example
```python
if self.recompute:
    x = checkpoint(layer, x, rope)
else:
    x = layer(x, rope, cu_seqlens=cu_seqlens)
```

### Use instead
```python
if self.recompute:
    x = checkpoint(layer, x, rope, cu_seqlens=cu_seqlens)
else:
    x = layer(x, rope, cu_seqlens=cu_seqlens)
```

### Fix safety
Unsafe: the callee may not take the keyword.

### References
- [torch.utils.checkpoint](https://docs.pytorch.org/docs/stable/checkpoint.html)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.findings import AddKeyword, Finding, Fix
from shapecheck.codemods.queries.callee import definition_of, takes_keyword
from shapecheck.codemods.queries.forwarding import Given, LeftOut, is_checkpoint, left_out, without_bounds, without_tags
from shapecheck.codemods.queries.in_scope import reads
from shapecheck.codemods.queries.wording import written
from shapecheck.codemods.queries.words import words
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View


def check(view: View) -> Iterator[Finding]:
    """VL414."""
    for found in (*left_out(view), *without_tags(view), *without_bounds(view)):
        names = " and ".join(f"`{given.name}`" for given in found.missing[:3])
        yield view.finding(
            RULE,
            found.call.node,
            f"{written(found.like.node.func)} gets {names} (line {found.like.node.lineno}), but this call of "
            f"{written(found.call.node.func)} does not, so it takes the packed rows for one sequence: pass them here too",
            notes=[(found.like.node, "gets the metadata")],
            fix=_fix(view, found),
        )


def _fix(view: View, found: LeftOut) -> Fix | None:
    if not all(_can_be_passed(view, found.call, given) for given in found.missing) or _is_of_queries(found):
        return None
    span = view.source.span(found.call.node)
    edits = [AddKeyword(span, str(given.keyword), view.source.code(given.node)) for given in found.missing]
    return view.fix("Pass the metadata", *edits)


def _is_of_queries(found: LeftOut) -> bool:
    """Whether the metadata that the like call gets says that it is for queries, or keys: the other call needs its own."""
    return any(not {"q", "k", "kv"}.isdisjoint(words(ast.unparse(given.node))) for given in found.missing)


def _can_be_passed(view: View, call: Call, given: Given) -> bool:
    """Whether the callee takes the keyword, and the expression has the same value at its call."""
    if given.keyword is None or given.keyword == "**" or not reads(view, call.node, given.node, given.term):
        return False
    if is_checkpoint(call):  # a reentrant one takes no keywords
        reentrant = call.kwargs.get("use_reentrant")
        return reentrant is not None and reentrant.is_const(False)
    callee = definition_of(view.module, call)
    return callee is None or takes_keyword(callee, given.keyword)


RULE = Rule(
    "VL414",
    "partly-forwarded-metadata",
    "stable",
    __doc__,
    check,
    valid=(
        "from functools import partial\n\n\ndef f(self, x, gate, packed_seq_params, recompute):\n"
        "    if recompute:\n"
        "        run = partial(self.norm, packed_seq_params=packed_seq_params)\n"
        "        return self.saver.checkpoint(run, x, gate)\n"
        "    return self.norm(x, gate, packed_seq_params)\n",
        "from functools import partial\n\n\ndef f(layers, x, rope, cu_seqlens, checkpoint, recompute):\n"
        "    for layer in layers:\n"
        "        if recompute:\n"
        "            x = checkpoint(partial(layer, cu_seqlens=cu_seqlens), x, rope)\n"
        "        else:\n"
        "            x = layer(x, rope, cu_seqlens=cu_seqlens)\n"
        "    return x\n",
        "from causal_conv1d import causal_conv1d_fn\nfrom fla.ops.kda import chunk_kda\n\n\n"
        "def mix(qkv, weight, gate):\n"
        "    q, k, v = causal_conv1d_fn(qkv, weight, seq_idx=None).chunk(3, -1)\n"
        "    return chunk_kda(q, k, v, gate)\n",
        "def f(layers, x, rope, cu_seqlens, checkpoint, recompute):\n"
        "    for layer in layers:\n"
        "        if recompute:\n"
        "            x = checkpoint(layer, x, rope, cu_seqlens, use_reentrant=False)\n"
        "        else:\n"
        "            x = layer(x, rope, cu_seqlens=cu_seqlens)\n"
        "    return x\n",
        "def f(layer, x, rope, cu_seqlens):\n"
        "    if cu_seqlens is None:\n"
        "        return layer(x, rope)\n"
        "    return layer(x, rope, cu_seqlens=cu_seqlens)\n",
        "def f(layer, x, y, rope, packed, cu_seqlens):\n"
        "    if packed:\n"
        "        return layer(x, rope, cu_seqlens=cu_seqlens)\n"
        "    return layer(y, rope)\n",
        "def probe(scan, x, dt, seq_idx):\n    return scan(x, dt) == scan(x, dt, seq_idx=seq_idx)\n",
        "def f(a, max_seqlen):\n    rows = max(a.shape[0], 1)\n    return rows, max(a.shape[1], 1, max_seqlen)\n",
        "from engine.ops import causal_conv1d_fn, mamba_chunk_scan_combined_varlen\n\n\n"
        "def f(x, w, meta):\n"
        "    x = causal_conv1d_fn(x, w, query_start_loc=meta.query_start_loc)\n"
        "    return mamba_chunk_scan_combined_varlen(x, seq_idx=meta.seq_idx)\n",
        "def f(self, x, cu_seqlens):\n"
        "    x = x + self.attention(self.norm1(x), cu_seqlens=cu_seqlens)\n"
        "    return x + self.mlp(self.norm2(x))\n",
        "def f(self, x, position_ids, cu_seqlens):\n"
        "    cos, sin = self.rotary(x, position_ids=position_ids)\n"
        "    return self.layer(x, position_ids=position_ids, cu_seqlens=cu_seqlens)\n",
    ),
    invalid=(
        Invalid(
            "from functools import partial\n\n\ndef f(layers, x, rope, cu_seqlens, checkpoint, recompute):\n"
            "    for layer in layers:\n"
            "        if recompute:\n"
            "            x = checkpoint(partial(layer, rope=rope), x)\n"
            "        else:\n"
            "            x = layer(x, rope=rope, cu_seqlens=cu_seqlens)\n"
            "    return x\n",
            rows=(7,),
        ),
        Invalid(
            "import torch\n\n\ndef f(layers, x, rope, cu_seqlens, recompute):\n"
            "    for layer in layers:\n"
            "        if recompute:\n"
            "            x = torch.utils.checkpoint.checkpoint(lambda h, run=layer: run(h, rope), x)\n"
            "        else:\n"
            "            x = layer(x, rope, cu_seqlens=cu_seqlens)\n"
            "    return x\n",
            rows=(7,),
        ),
        Invalid(
            "from fla.modules import ShortConvolution\nfrom fla.ops.gla import chunk_gla\n\n\nclass Mixer:\n"
            "    def __init__(self, width):\n        self.conv = ShortConvolution(width)\n\n"
            "    def forward(self, q, k, v, cu_seqlens):\n"
            "        q, _ = self.conv(q, cu_seqlens=cu_seqlens)\n"
            "        return chunk_gla(q, k, v)\n",
            rows=(11,),
            fixed="from fla.modules import ShortConvolution\nfrom fla.ops.gla import chunk_gla\n\n\nclass Mixer:\n"
            "    def __init__(self, width):\n        self.conv = ShortConvolution(width)\n\n"
            "    def forward(self, q, k, v, cu_seqlens):\n"
            "        q, _ = self.conv(q, cu_seqlens=cu_seqlens)\n"
            "        return chunk_gla(q, k, v, cu_seqlens=cu_seqlens)\n",
        ),
        Invalid(
            "from causal_conv1d import causal_conv1d_fn\nfrom fla.ops.kda import chunk_kda\n\n\n"
            "def mix(qkv, weight, gate, tags):\n"
            "    q, k, v = causal_conv1d_fn(qkv, weight, seq_idx=tags).chunk(3, -1)\n"
            "    return chunk_kda(q, k, v, gate)\n",
            rows=(7,),
        ),
        Invalid(
            "def f(layers, x, rope, cu_seqlens, checkpoint, recompute):\n"
            "    for layer in layers:\n"
            "        if recompute:\n"
            "            x = checkpoint(layer, x, rope, use_reentrant=False)\n"
            "        else:\n"
            "            x = layer(x, rope, cu_seqlens=cu_seqlens)\n"
            "    return x\n",
            rows=(4,),
            fixed="def f(layers, x, rope, cu_seqlens, checkpoint, recompute):\n"
            "    for layer in layers:\n"
            "        if recompute:\n"
            "            x = checkpoint(layer, x, rope, use_reentrant=False, cu_seqlens=cu_seqlens)\n"
            "        else:\n"
            "            x = layer(x, rope, cu_seqlens=cu_seqlens)\n"
            "    return x\n",
        ),
        Invalid(
            "def f(self, checkpoint, x, rope, cu_seqlens):\n"
            "    if self.recompute:\n"
            "        return checkpoint(lambda h: self.layer(h, rope), x)\n"
            "    else:\n"
            "        return self.layer(x, rope, cu_seqlens=cu_seqlens)\n",
            rows=(3,),
            fixed="def f(self, checkpoint, x, rope, cu_seqlens):\n"
            "    if self.recompute:\n"
            "        return checkpoint(lambda h: self.layer(h, rope, cu_seqlens=cu_seqlens), x)\n"
            "    else:\n"
            "        return self.layer(x, rope, cu_seqlens=cu_seqlens)\n",
        ),
        Invalid(
            "def f(rotate, q, k, cos, sin, cu_seqlens):\n"
            "    q = rotate(q, cos, sin, cu_seqlens=cu_seqlens)\n"
            "    k = rotate(k, cos, sin)\n"
            "    return q, k\n",
            rows=(3,),
            fixed="def f(rotate, q, k, cos, sin, cu_seqlens):\n"
            "    q = rotate(q, cos, sin, cu_seqlens=cu_seqlens)\n"
            "    k = rotate(k, cos, sin, cu_seqlens=cu_seqlens)\n"
            "    return q, k\n",
        ),
        Invalid(
            "def f(self, x, cache, use_cache, cu_seqlens):\n"
            "    q = self.q_conv(x=x, cache=cache, final=use_cache, cu_seqlens=cu_seqlens)\n"
            "    k = self.k_conv(x=x, cache=cache, final=use_cache)\n"
            "    v = self.v_conv(x=x, cache=cache, final=use_cache, cu_seqlens=cu_seqlens)\n"
            "    return q, k, v\n",
            rows=(3,),
            fixed="def f(self, x, cache, use_cache, cu_seqlens):\n"
            "    q = self.q_conv(x=x, cache=cache, final=use_cache, cu_seqlens=cu_seqlens)\n"
            "    k = self.k_conv(x=x, cache=cache, final=use_cache, cu_seqlens=cu_seqlens)\n"
            "    v = self.v_conv(x=x, cache=cache, final=use_cache, cu_seqlens=cu_seqlens)\n"
            "    return q, k, v\n",
        ),
        Invalid(
            "from causal_conv1d import causal_conv1d_fn\n"
            "from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined\n\n\n"
            "def f(x, w, dt, a, b, c, seq_idx):\n"
            "    x = causal_conv1d_fn(x, w)\n"
            "    return mamba_chunk_scan_combined(x, dt, a, b, c, chunk_size=64, seq_idx=seq_idx)\n",
            rows=(6,),
            fixed="from causal_conv1d import causal_conv1d_fn\n"
            "from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined\n\n\n"
            "def f(x, w, dt, a, b, c, seq_idx):\n"
            "    x = causal_conv1d_fn(x, w, seq_idx=seq_idx)\n"
            "    return mamba_chunk_scan_combined(x, dt, a, b, c, chunk_size=64, seq_idx=seq_idx)\n",
        ),
    ),
    fixable=True,
)
