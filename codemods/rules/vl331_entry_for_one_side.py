"""One of the arrays with an entry per sequence gets a further entry, the other one does not.

### What it does
Reports calls that take an array for the queries and one for the keys, both with an entry for each sequence, where one of the
two got an entry for padding in this function and the other one is as it came.

### Why is this bad?
The kernel pairs entry i of the queries with entry i of the keys. For the last one it finds nothing, or reads past the end.

### Example
```python
ends = common.query_start_loc[1:].tolist()
kv_lens = common.seq_lens.tolist()
if padded_rows > ends[-1]:
    ends.append(padded_rows)
return Metadata(actual_seq_lengths=ends, actual_seq_lengths_kv=kv_lens)
```

### Use instead
```python
ends = common.query_start_loc[1:].tolist()
kv_lens = common.seq_lens.tolist()
if padded_rows > ends[-1]:
    ends.append(padded_rows)
    kv_lens.append(0)
return Metadata(actual_seq_lengths=ends, actual_seq_lengths_kv=kv_lens)
```

### Fix safety
No fix: what the further entry has to be depends on the kernel.

### References
- [vllm-ascend#7290](https://github.com/vllm-project/vllm-ascend/pull/7290)
"""

from collections.abc import Iterator

from shapecheck.codemods.compare import worlds
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import first_round, place, shown
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_SIDES = (
    *(("ends_q", "ends_k"), ("ends_q", "lens_k"), ("bounds_q", "bounds_k"), ("lens_q", "lens_k")),
    *(("bounds", "lens"), ("bounds_q", "lens"), ("bounds_q", "lens_k")),
)


def check(view: View) -> Iterator[Finding]:
    """VL331."""
    for consumer in view.consumers:
        for of_q, of_k in _SIDES:
            q, k = consumer.roles.get(of_q), consumer.roles.get(of_k)
            if q is None or k is None or q.term is k.term:
                continue
            for q_term, k_term in worlds(first_round(q.term), first_round(k.term), context=consumer.call.context):
                (q_root, q_added), (k_root, k_added) = _grown(q_term), _grown(k_term)
                added = q_added or k_added
                if added is None or (q_added and k_added) or not _related(q_root, k_root):
                    continue
                longer, shorter = (q, k) if q_added else (k, q)
                yield view.finding(
                    RULE,
                    shorter.node,
                    f"`{shown(longer)}` got a further entry{place(view, added)}, `{shown(shorter)}` did not, so the two no "
                    "longer have an entry for each sequence alike; add one to both",
                    notes=[(added.node, "entry added here")],
                )
                return


def _grown(term: Term) -> tuple[Term, Term | None]:
    """The array that a value is a copy of, and the operation that added entries behind it."""
    term = plain(term)
    match term.op:
        case "append":
            return _origin(term.args[0]), term
        case "extend" | "Add" if term.args[1].op in {"list", "Mult", "each"}:
            return _origin(term.args[0]), term
        case "pad" if _pads_behind(term.args[1]):
            return _origin(term.args[0]), term
        case "cat" if term.args[1].op in {"list", "tuple"} and len(term.args[1].args) > 1:
            return _origin(term.args[1].args[0]), term
    return _origin(term), None


def _pads_behind(amounts: Term) -> bool:
    return amounts.op == "tuple" and len(amounts.args) == 2 and amounts.args[0].is_const(0)


def _origin(term: Term) -> Term:
    """The array, without copies and cuts of a first entry."""
    term = plain(term)
    while term.op == "item" and term.args[1].op == "slice":
        term = plain(term.args[0])
    return term


def _related(one: Term, other: Term) -> bool:
    """Whether two arrays are different fields of one object, as it came."""
    return (
        one.op == other.op == "attr"
        and one is not other
        and one.args[0] is other.args[0]
        and one.args[0].op == "parameter"
    )


_HEAD = (
    "class Builder:\n    def build(self, common, rows):\n        ends = common.query_start_loc_cpu[1:].tolist()\n"
    "        kv_lens = common.seq_lens_cpu.tolist()\n        if rows > ends[-1]:\n            ends.append(rows)\n"
)
_TAIL = "        return Metadata(actual_seq_lengths=ends, actual_seq_lengths_kv=kv_lens)\n"

RULE = Rule(
    "VL331",
    "entry-for-one-side",
    "stable",
    __doc__,
    check,
    valid=(
        f"{_HEAD}            kv_lens.append(0)\n{_TAIL}",
        "def plan(wrapper, meta):\n    lens = meta.kv_lens\n    indptr = meta.qo_indptr\n"
        "    wrapper.plan(qo_indptr=indptr, kv_indptr=lens)\n",
    ),
    invalid=(
        Invalid(f"{_HEAD}{_TAIL}", rows=(7,)),
        Invalid(
            "import torch\n\n\ndef build(common, graph):\n    starts, lens = common.query_start_loc, common.seq_lens\n"
            "    if graph > len(lens):\n        starts = torch.cat([starts, starts[-1:].expand(graph - len(lens))])\n"
            "    return Metadata(query_start_loc=starts, seq_lens=lens)\n",
            rows=(8,),
        ),
        Invalid(
            "import torch.nn.functional as F\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef run(q, k, v, meta, total):\n"
            "    cu_q, cu_k = meta.cu_q, meta.cu_k\n    if q.shape[0] < total:\n"
            "        cu_q = F.pad(cu_q, (0, 1), value=total)\n"
            "    return flash_attn_varlen_func(q, k, v, cu_q, cu_k, meta.max_q, meta.max_k)\n",
            rows=(9,),
        ),
    ),
)
