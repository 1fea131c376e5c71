"""Queries are cut into segments by the lengths of the keys, or keys by those of the queries.

### What it does
Reports `q.split(lens)`, `torch.split(q, lens)` and `q[start:end]` where the lengths or boundaries are those of the key side while
the function has those of the query side too; and the same for keys and values.

### Why is this bad?
With equal totals nothing fails, and each query attends to keys of other samples. In self-attention the two agree, so the fault
shows only once a cache or another modality gives the keys.

### Example
```python
q_lens, k_lens = cu_seqlens_q.diff().tolist(), cu_seqlens_k.diff().tolist()
for q_i, k_i in zip(q.split(k_lens), k.split(q_lens)):
    outputs.append(attend(q_i, k_i))
```

### Use instead
```python
q_lens, k_lens = cu_seqlens_q.diff().tolist(), cu_seqlens_k.diff().tolist()
for q_i, k_i in zip(q.split(q_lens), k.split(k_lens)):
    outputs.append(attend(q_i, k_i))
```

### Fix safety
No fix: the names may be exchanged where the lengths are made.

### References
- [flash-attention: flash_attn_varlen_func](https://github.com/Dao-AILab/flash-attention/blob/main/flash_attn/flash_attn_interface.py)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.rearranged import within
from shapecheck.codemods.queries.words import words
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View, name_of

_ROWS = {
    **dict.fromkeys(("q", "query", "queries", "query_states"), "q"),
    **dict.fromkeys(("k", "v", "kv", "key", "keys", "value", "key_states", "value_states"), "k"),
}
_ROLES = {f"{kind}_{side}": side for kind in ("bounds", "ends", "lens") for side in "qk"}
_SIDES = {"q": "q", "query": "q", "k": "k", "kv": "k", "key": "k"}
_LENGTHS = {"lens", "lengths", "seqlens", "seqlen"}
_WORDS = {"q": "query", "k": "key"}


def check(view: View) -> Iterator[Finding]:
    """VL340."""
    by_op = view.module.pool.by_op
    if not ("split" in by_op or "slice" in by_op) or _sides_known(view) != {"q", "k"}:
        return
    for term in (*by_op.get("split", ()), *by_op.get("item", ())):
        cut = _cut(term) if term.node is not None and within(view, term) else None
        if cut is None:
            continue
        rows, ends = cut
        side = _ROWS.get(name_of(rows))
        given = {_side(view, end) for end in ends}
        if side is None or given != {"k" if side == "q" else "q"}:
            continue
        yield view.finding(
            RULE,
            term.node,
            f"`{view.source.code(rows)}` are {_WORDS[side]} rows, but they are cut into segments by the lengths of the "
            f"{_WORDS[given.pop() or side]} side; cut them by `cu_seqlens_{side}`",
            notes=[(ends[0].node, "the lengths come from here")],
        )
        return


def _cut(term: Term) -> tuple[ast.expr, tuple[Term, ...]] | None:
    """The rows, as written, and what they are cut by."""
    match term.node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch")), args=[rows, _, *_]) if term.op == "split":
            return rows, (term.args[1],)
        case ast.Call(func=ast.Attribute(value=rows)) if term.op == "split":
            return rows, (term.args[1],)
        case ast.Subscript(value=rows) if term.op == "item":
            index = term.args[1].args[0] if term.args[1].op == "tuple" and term.args[1].args else term.args[1]
            ends = index.args[:2] if index.op == "slice" else ()
            return (rows, ends) if ends and not any(end.op == "const" for end in ends) else None
    return None


def _sides_known(view: View) -> set[str]:
    """The sides whose lengths or boundaries the function names."""
    names = {
        node.id if isinstance(node, ast.Name) else node.arg
        for node in view.nodes
        if isinstance(node, ast.Name | ast.arg)
    }
    return {side for name in names if (side := _side_of_name(view, name)) is not None}


def _side_of_name(view: View, name: str) -> str | None:
    """The side that a name of lengths or boundaries tells."""
    role = view.catalogue.role_of(name)
    if role in _ROLES:
        return _ROLES[role]
    said = words(name)
    sides = {_SIDES[word] for word in said if word in _SIDES}
    return sides.pop() if len(sides) == 1 and said & _LENGTHS else None


def _side(view: View, end: Term) -> str | None:
    """The side whose lengths or boundaries a number was read from; None for both or neither."""
    found: set[str] = set()
    for inner in end.walk():
        name = inner.args[0] if inner.op == "parameter" else inner.args[1] if inner.op == "attr" else inner.value
        if isinstance(name, str):
            if name in _ROWS:
                return None
            side = _side_of_name(view, name)
            found |= set() if side is None else {side}
    return found.pop() if len(found) == 1 else None


_HEAD = "import torch\n\n\ndef attend(q, k, v, cu_seqlens_q, cu_seqlens_k, attention):\n"
_LENS = "    q_lens, k_lens = cu_seqlens_q.diff().tolist(), cu_seqlens_k.diff().tolist()\n"
_LOOP = "    out = []\n    for i in range(cu_seqlens_q.numel() - 1):\n"

RULE = Rule(
    "VL340",
    "split-by-other-side",
    "stable",
    __doc__,
    check,
    valid=(
        f"{_HEAD}{_LENS}    parts = zip(q.split(q_lens), k.split(k_lens), v.split(k_lens))\n"
        "    return torch.cat([attention(*part) for part in parts])\n",
        f"{_HEAD}{_LOOP}        rows = q[cu_seqlens_q[i] : cu_seqlens_q[i + 1]]\n"
        "        keys = k[cu_seqlens_k[i] : cu_seqlens_k[i + 1]]\n        out.append(attention(rows, keys))\n    return torch.cat(out)\n",
        # Self-attention: one set of lengths for both.
        "import torch\n\n\ndef attend(q, k, cu_seqlens_q, attention):\n    lens = cu_seqlens_q.diff().tolist()\n"
        "    return torch.cat([attention(a, b) for a, b in zip(q.split(lens), k.split(lens))])\n",
        # The last keys of each segment, as many as it has queries.
        f"{_HEAD}{_LOOP}        keys = k[cu_seqlens_k[i + 1] - cu_seqlens_q[i + 1] + cu_seqlens_q[i] : cu_seqlens_k[i + 1]]\n"
        "        out.append(attention(q[cu_seqlens_q[i] : cu_seqlens_q[i + 1]], keys))\n    return torch.cat(out)\n",
    ),
    invalid=(
        Invalid(
            f"{_HEAD}{_LENS}    parts = zip(q.split(k_lens), k.split(q_lens), v.split(q_lens))\n"
            "    return torch.cat([attention(*part) for part in parts])\n",
            rows=(6,),
        ),
        Invalid(
            f"{_HEAD}{_LENS}    queries = torch.split(q, q_lens)\n    keys, values = torch.split(k, k_lens), torch.split(v, q_lens)\n"
            "    return torch.cat([attention(*part) for part in zip(queries, keys, values)])\n",
            rows=(7,),
        ),
        Invalid(
            f"{_HEAD}{_LOOP}        rows = q[cu_seqlens_q[i] : cu_seqlens_q[i + 1]]\n"
            "        keys = k[cu_seqlens_q[i] : cu_seqlens_q[i + 1]]\n        out.append(attention(rows, keys))\n"
            "    return torch.cat(out)\n",
            rows=(8,),
        ),
        Invalid(
            "def attend(self, batch, cu_seqlens_q, cu_seqlens_k):\n    query, key = batch['query'], batch['key']\n"
            "    cu_q, cu_k = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()\n"
            "    return [\n        self.core(query[a:b], key[c:d])\n"
            "        for a, b, c, d in zip(cu_k[:-1], cu_k[1:], cu_q[:-1], cu_q[1:])\n    ]\n",
            rows=(5,),
        ),
    ),
)
