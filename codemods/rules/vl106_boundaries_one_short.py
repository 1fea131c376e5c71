"""Boundaries of n segments have n entries where n + 1 are needed.

### What it does
Reports boundaries that lack the end of the last segment: the start of each segment only, a slice `[:n]` beside the lengths `[:n]`, or a
buffer with one entry for each sequence that is filled from entry 1.

### Why is this bad?
The last segment is lost: its rows are never attended to, or the write into the buffer fails once the batch is full.

### Example
```python
cu_seqlens = F.pad(lens[:-1].cumsum(0), (1, 0))
```

### Use instead
```python
cu_seqlens = F.pad(lens.cumsum(0), (1, 0))
```

### Fix safety
No fix: the place that is one short may be the slice, the buffer or the sum.

### References
- [flash-attention: variable-length interface](https://github.com/Dao-AILab/flash-attention)
"""

import ast
import re
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.events import Binding
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.growing import is_offset
from shapecheck.codemods.queries.located import located
from shapecheck.codemods.queries.names import outer_name
from shapecheck.codemods.queries.slots import BOUNDS, Slot, slots
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View

# A limit on the number of sequences; a buffer of boundaries needs one entry more.
_LIMIT = re.compile(
    r"_?(max|num|n)_(\w+_)?(seqs|sequences|reqs|requests|samples|docs|documents|segments|batch_size|bs|batch)"
)
_ROWS = {"q", "k", "v", "qkv", "kv", "x"}
_MEASURES = {"max", "sum", "cumsum"}


def check(view: View) -> Iterator[Finding]:
    """VL106."""
    yield from _starts_only(view)
    yield from _sliced_like_lengths(view)
    yield from _short_buffers(view)


def _starts_only(view: View) -> Iterator[Finding]:
    """Starts where boundaries belong: `F.pad(lens[:-1].cumsum(0), (1, 0))`, `cu_seqlens[:-1]`, `lens.cumsum(0) - lens`."""
    for slot in slots(view, BOUNDS):
        starts = _starts(view, slot)
        if starts is not None:
            yield view.finding(
                RULE,
                slot.node,
                f"{slot.shown} holds the start of each segment only{view.line(starts.node)}, so {slot.taker} misses the end of the last "
                "one; n segments have n + 1 boundaries",
                notes=[(starts.node, "one start for each segment")],
            )


def _starts(view: View, slot: Slot) -> Term | None:
    """What makes the starts, if the slot holds one for each segment and nothing behind them."""
    if slot.sink is not None and (_is_dense(plain(slot.term)) or _is_one_row_each(view, plain(slot.term), slot)):
        return plain(slot.term)
    bounds = bounds_of(slot.term)
    if bounds is not None:
        cut = bounds.source
        is_short = (
            bounds.kind == "lens"
            and bounds.zero
            and not bounds.appended
            and cut.op == "item"
            and _drops_last(cut.args[1])
        )
        return bounds.term if is_short and _in_use(view, plain(cut.args[0]), slot) else None
    inner = plain(slot.term)
    if inner.op == "item" and _drops_last(inner.args[1]):
        whole = bounds_of(inner.args[0])
        if (
            whole is not None
            and whole.zero
            and not whole.appended
            and whole.kind == "lens"
            and _in_use(view, whole.source, slot)
        ):
            return inner
    if not slot.guessed and (found := located(inner, view)) is not None and found.kind == "starts" and found.early == 0:
        return found.term
    if slot.sink is None:
        return None
    if (
        inner.op == "Sub"
        and (total := plain(inner.args[0])).op == "cumsum"
        and plain(total.args[0]) is plain(inner.args[1])
    ):
        return inner
    if inner.op == "each" and len(inner.args) == 2 and is_offset(view, inner.args[0]):
        return inner
    return None


def _is_dense(term: Term) -> bool:
    """`arange(b) * n` and `arange(0, b * n, n)`, where b is a number of samples for sure."""
    if term.op == "Mult":
        counted = plain(term.args[0])
        return (
            counted.op == "arange"
            and bool(counted.args[0].is_const(0))
            and plain(counted.args[1]).op in {"shape", "len"}
        )
    if term.op != "arange" or not term.args[0].is_const(0):
        return False
    end, step = plain(term.args[1]), plain(term.args[2])
    if end.op != "Mult" or step.op == "const":
        return False
    sides = [plain(side) for side in end.args]
    return step in sides and all(side is step or side.op in {"shape", "len"} for side in sides)


def _is_one_row_each(view: View, term: Term, slot: Slot) -> bool:
    """`arange(q.shape[0])`, where q is what the boundaries are for."""
    if term.op != "arange" or not (term.args[0].is_const(0) and term.args[2].is_const(1)) or slot.call is None:
        return False
    end = plain(term.args[1])
    consumer = next((consumer for consumer in view.consumers if consumer.call is slot.call), None)
    if consumer is None or end.op not in {"shape", "len"}:
        return False
    return any(given.term is end.args[0] for role, given in consumer.roles.items() if role in _ROWS)


def _drops_last(index: Term) -> bool:
    if index.op != "slice":
        return False
    low, high, step = index.args
    return bool((low.is_const(None) or low.is_const(0)) and high.is_const(-1) and step.is_const(None))


def _in_use(view: View, lens: Term, slot: Slot) -> bool:
    """Whether the function takes the maximum or the sum of all of the lengths."""
    for call in view.calls:
        if call is not slot.call and call.name in _MEASURES:
            term = plain(call.result)
            if term.op in _MEASURES and plain(term.args[0]) is lens:
                return True
    return False


def _sliced_like_lengths(view: View) -> Iterator[Finding]:
    """`{"cu_seqlens": cu[:n], "seq_lens": lens[:n]}`, where cu was filled up to entry n, or goes to a known consumer."""
    groups = [(bundle.members, False) for bundle in view.bundles if not _is_function_call(bundle.node)]
    for consumer in view.consumers:
        sink = consumer.sink
        if sink is not None and consumer.call.imported and sink.owns(consumer.call.path):
            groups.append((tuple(consumer.roles.values()), True))
    seen: set[Term] = set()
    for members, certain in groups:
        lens = {count: at for at in members if at.role.startswith("lens") and (count := _count(at.term)) is not None}
        for member in members:
            count = _count(member.term) if member.role in BOUNDS else None
            if count in lens and member.term not in seen and (certain or _filled_to(plain(member.term).args[0], count)):
                seen.add(member.term)
                yield _one_short(view, member, lens[count])


def _is_function_call(node: ast.AST) -> bool:
    """Whether values go to a function, which may want the start of each segment; a class keeps them."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return not name[:1].isupper() and name != "dict"


def _filled_to(buffer: Term, count: Term) -> bool:
    """Whether entries 1 to `count` (inclusive) of a buffer were written in this function."""
    while buffer.op == "store":
        index = buffer.args[1]
        if index.op == "slice" and index.args[0].is_const(1):
            end = plain(index.args[1])
            if end.op == "Add" and any(plain(end.args[at]) is count and end.args[1 - at].is_const(1) for at in (0, 1)):
                return True
        buffer = buffer.args[0]
    return False


def _count(term: Term) -> Term | None:
    """`n` if the term is `x[:n]`, where n is computed."""
    term = plain(term)
    if term.op != "item" or term.args[1].op != "slice":
        return None
    low, high, step = term.args[1].args
    if (low.is_const(None) or low.is_const(0)) and step.is_const(None) and high.op not in {"const", "USub"}:
        return plain(high)
    return None


def _one_short(view: View, given: Argument, lens: Argument) -> Finding:
    place = given.term.node if isinstance(given.term.node, ast.Subscript) else given.node
    return view.finding(
        RULE,
        place,
        f"`{given.name}` has as many entries as `{lens.name}`{view.line(lens.node)}, but n segments have n + 1 boundaries: the end of "
        "the last one is cut off; slice one entry more",
        notes=[(lens.node, "one entry for each segment")],
    )


def _short_buffers(view: View) -> Iterator[Finding]:
    """`buffer = zeros(max_seqs)`, then `buffer[1 : n + 1] = ends`, or `buffer[: n + 1] = cu_seqlens`."""
    for binding in view.bindings:
        count = _segments_stored(view, binding)
        made = None if count is None else _allocated(view, binding.target)
        size = None if made is None else _size(made)
        if made is None or size is None:
            continue
        name = outer_name(size)
        if size is count or (name is not None and _LIMIT.fullmatch(name)):
            yield view.finding(
                RULE,
                made.node or binding.node,
                f"`{binding.target}` holds the boundaries of the segments{view.line(binding.node)}, but it has only as many entries as "
                "there may be segments; make it one entry longer",
                notes=[(binding.node, "entry 0 is the leading zero, so n segments need n + 1 entries")],
            )
            return


def _segments_stored(view: View, binding: Binding) -> Term | None:
    """How many segments the boundaries have that a statement stores into the front of a buffer."""
    stored = binding.value
    if stored.op != "store" or stored.args[1].op != "slice":
        return None
    low, high, _ = stored.args[1].args
    bounds = bounds_of(stored.args[2])
    role = view.catalogue.role_of(binding.target.rpartition(".")[2])
    if low.is_const(1) and high.is_const(None):
        # buffer[1:] = lens.cumsum(0)
        ends = bounds is not None and bounds.kind == "lens" and bounds.zero is False
        return _count_of(view, bounds.source) if ends and bounds is not None else None
    if not (low.is_const(1) or low.is_const(0) or low.is_const(None)) or (role not in BOUNDS and bounds is None):
        return None
    end = plain(high)
    if end.op != "Add":
        return None
    counts = [plain(end.args[at]) for at in (0, 1) if end.args[1 - at].is_const(1)]
    return counts[0] if counts else None


def _count_of(view: View, lens: Term) -> Term | None:
    """The term for the number of lengths, where the function computes it."""
    return next((call.result for call in view.calls if _is_count(plain(call.result), lens)), None)


def _is_count(term: Term, lens: Term) -> bool:
    return term.op in {"len", "numel", "shape"} and plain(term.args[0]) is lens


def _allocated(view: View, target: str) -> Term | None:
    """What a name, or an attribute in `__init__`, was first bound to."""
    bindings = view.bindings
    owner = view.function.owner
    if owner is not None and target.startswith("self."):
        init = view.module.method(owner, "__init__")
        bindings = [] if init is None else view.module.interpret(init).bindings
    return next((binding.value for binding in bindings if binding.target == target), None)


def _size(term: Term) -> Term | None:
    """The number of entries of a new one-dimensional buffer."""
    while term.op in {"cast", "typed_like", "moved"}:
        term = term.args[0]
    return plain(term.args[1]) if term.op == "full" and len(term.args) == 2 else None


RULE = Rule(
    "VL106",
    "boundaries-one-short",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\nfrom flash_attn import flash_attn_varlen_qkvpacked_func\n\n\ndef f(x):\n    b, n = x.shape[:2]\n"
        "    cu_seqlens = torch.arange(0, (b + 1) * n, n, dtype=torch.int32)\n"
        "    return flash_attn_varlen_qkvpacked_func(x.flatten(0, 1), cu_seqlens, n)\n",
        "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef f(q, k, v, cu_k, n):\n"
        "    cu_q = torch.arange(cu_k.shape[0], dtype=torch.int32)\n"
        "    return flash_attn_varlen_func(q, k, v, cu_q, cu_k, 1, n)\n",
        "import torch.nn.functional as F\n\n\ndef f(x, lens):\n    starts = F.pad(lens[:-1].cumsum(0), (1, 0))\n"
        "    return x[starts], lens.max()\n",
        "def f(cu_seqlens, seq_lens, n):\n    return {'cu_seqlens': cu_seqlens[: n + 1], 'seq_lens': seq_lens[:n]}\n",
        "def f(locate, query_start_loc, seq_lens, n):\n"
        "    return locate(query_start_loc=query_start_loc[:n], seq_lens=seq_lens[:n])  # the start of each request\n",
        "import torch\n\n\nclass Buffers:\n    def __init__(self, max_seqs):\n"
        "        self.cu_seqlens = torch.zeros(max_seqs + 1, dtype=torch.int32)\n\n    def fill(self, lens):\n"
        "        self.cu_seqlens[1 : len(lens) + 1] = torch.tensor(lens).cumsum(0)\n        return self.cu_seqlens\n",
        "import torch\n\n\ndef f(attend, q, lens):\n    lens = torch.cat([lens, lens.new_tensor([q.shape[0]]) - lens.sum()])\n"
        "    cu_seqlens = torch.nn.functional.pad(lens[:-1].cumsum(0), (1, 0))\n    return attend(q, cu_seqlens=cu_seqlens)\n",
        "import torch\n\n\ndef f(position_ids):\n    starts = (position_ids == 0).nonzero().flatten()\n"
        "    cu_seqlens = torch.cat([starts, starts.new_tensor([position_ids.numel()])])\n    return cu_seqlens\n",
    ),
    invalid=(
        Invalid(
            "import torch\nfrom fla.ops.gla import chunk_gla\n\n\ndef f(q, k, v, g, position_ids):\n"
            "    cu_seqlens = torch.nonzero(position_ids.view(-1) == 0).view(-1)\n"
            "    return chunk_gla(q, k, v, g, cu_seqlens=cu_seqlens)\n",
            rows=(7,),
        ),
        Invalid(
            "import torch.nn.functional as F\n\n\ndef f(attend, q, lens):\n    cu_seqlens = F.pad(lens[:-1].cumsum(0), (1, 0))\n"
            "    return attend(q, cu_seqlens=cu_seqlens, max_seqlen=int(lens.max()))\n",
            rows=(6,),
        ),
        Invalid(
            "import torch\nfrom flash_attn import flash_attn_varlen_qkvpacked_func\n\n\ndef f(x):\n    b, n = x.shape[:2]\n"
            "    cu_seqlens = torch.arange(0, b * n, n, dtype=torch.int32)\n"
            "    return flash_attn_varlen_qkvpacked_func(x.flatten(0, 1), cu_seqlens, n)\n",
            rows=(8,),
        ),
        Invalid(
            "def f(cu_seqlens, lens, n):\n    cu_seqlens[1 : n + 1] = lens.cumsum(0)\n"
            "    return {'cu_seqlens': cu_seqlens[:n], 'seq_lens': lens[:n]}\n",
            rows=(3,),
        ),
        Invalid(
            "import torch\n\n\nclass Buffers:\n    def __init__(self, max_seqs):\n"
            "        self.cu_seqlens = torch.zeros(max_seqs, dtype=torch.int32)\n\n    def fill(self, lens):\n"
            "        self.cu_seqlens[1 : len(lens) + 1] = torch.tensor(lens).cumsum(0)\n        return self.cu_seqlens\n",
            rows=(6,),
        ),
    ),
)
