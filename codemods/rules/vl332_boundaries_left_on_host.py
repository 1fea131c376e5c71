"""The rows are moved to the GPU, their boundaries are built on the CPU and stay there.

### What it does
Reports calls of CUDA attention kernels whose rows were moved to the device in the function and whose boundaries were built
from Python numbers without a device.

### Why is this bad?
The kernel needs boundaries on the device of the rows: the call raises an error, or reads foreign memory.

### Example
```python
x = torch.cat(clouds).cuda()
cu_seqlens = torch.tensor([0, *counts], dtype=torch.int32).cumsum(0, dtype=torch.int32)
out = flash_attn_varlen_qkvpacked_func(to_qkv(x), cu_seqlens, max(counts))
```

### Use instead
```python
x = torch.cat(clouds).cuda()
cu_seqlens = torch.tensor([0, *counts], dtype=torch.int32, device=x.device).cumsum(0, dtype=torch.int32)
out = flash_attn_varlen_qkvpacked_func(to_qkv(x), cu_seqlens, max(counts))
```

### Fix safety
No fix: the copy to the device may have to be made elsewhere, once for all layers.

### References
- [flash-attention](https://github.com/Dao-AILab/flash-attention)
"""

from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.events import Call
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.partings import place, shown
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, Consumer, View

_KERNELS = ("flash_attn", "varlen_attn")
_MOVING = {"cuda", "to", "type_as", "new_tensor", "as_tensor", "asarray", "npu", "xpu"}


def check(view: View) -> Iterator[Finding]:
    """VL332."""
    moves = [call for call in view.calls if _moves(call)]
    for consumer in view.consumers if moves else ():
        if consumer.sink is None or not consumer.call.name.startswith(_KERNELS):
            continue
        move = next((move for move in moves for rows in _rows(consumer) if move.result in set(rows.term.walk())), None)
        if move is None:
            continue
        for role in ("bounds", "bounds_q", "bounds_k"):
            meta = consumer.roles.get(role)
            if meta is not None and bounds_of(meta.term) is not None and _on_host(view, meta.term):
                yield view.finding(
                    RULE,
                    meta.node,
                    f"the rows are moved to the device{view.line(move.node)} but `{shown(meta)}` is built on the "
                    f"CPU{place(view, meta.term)} and stays there; build it with `device=` of the rows",
                    notes=[(move.node, "rows moved here"), (meta.term.node, "built on the CPU here")],
                )
                break


def _moves(call: Call) -> bool:
    """`x.cuda()`, `x.to("cuda")`, `x.to(device)`: the kernel takes nothing from the CPU."""
    if call.receiver is None or call.receiver.op == "self":
        return False
    given = [arg for arg in (*call.args, call.kwargs.get("device")) if arg is not None]
    return call.name == "cuda" or (call.name == "to" and any(_is_device(arg) for arg in given))


def _is_device(term: Term) -> bool:
    if term.op in {"parameter", "global"}:
        return str(term.args[0]).lower() in {"device", "dev"}
    return term.is_const("cuda") or (term.op == "attr" and term.args[1] == "device")


def _rows(consumer: Consumer) -> list[Argument]:
    return [argument for role, argument in consumer.roles.items() if role in {"q", "k", "qkv", "kv", "x"}]


def _on_host(view: View, term: Term) -> bool:
    """Whether a tensor is built from Python numbers, without a device at any step."""
    if not _of_numbers(term):
        return False
    inside = set(term.walk())
    return not any(
        call.result in inside and (call.name in _MOVING or "device" in call.kwargs or call.name.startswith("new_"))
        for call in view.calls
    )


def _of_numbers(term: Term) -> bool:
    if term.op == "tensor":
        return _are_numbers(term.args[0])
    if term.op == "full":
        return all(_are_numbers(size) for size in term.args[1:])
    if term.op in {"cast", "cumsum", "pad", "copy"}:
        return _of_numbers(term.args[0])
    if term.op == "cat" and term.args[1].op in {"list", "tuple"}:
        return all(_of_numbers(part) for part in term.args[1].args)
    return term.op == "arange" and all(_are_numbers(end) for end in term.args)


def _are_numbers(term: Term) -> bool:
    """Whether a value is a number or a list of numbers of Python for sure: sizes and constants."""
    if term.op in {"const", "shape", "len", "numel"}:
        return True
    if term.op in {"cast", "cumsum", "copy", "tensor"}:
        return _are_numbers(term.args[0])
    if term.op in {"list", "tuple", "star", "Add", "Mult", "Sub", "FloorDiv", "max", "sum"}:
        return all(_are_numbers(part) for part in term.children())
    if term.op == "each":
        return _are_numbers(term.args[0])
    if term.op == "running":
        return all(_are_numbers(part) for part in term.args)
    if term.op == "elem":
        return plain(term.args[0]).op == "each" and _are_numbers(plain(term.args[0]).args[0])
    return False


_HEAD = "import torch\nfrom flash_attn import flash_attn_varlen_qkvpacked_func\n\n\n"
_BODY = (
    "class Points(torch.nn.Module):\n    def forward(self, clouds):\n        x = torch.cat(clouds){move}\n"
    "        counts = [c.shape[0] for c in clouds]\n"
    "        cu = torch.tensor([0, *counts], dtype=torch.int32{device}).cumsum(0, dtype=torch.int32)\n"
    "        return flash_attn_varlen_qkvpacked_func(self.qkv(x), cu, max(counts))\n"
)

RULE = Rule(
    "VL332",
    "boundaries-left-on-host",
    "stable",
    __doc__,
    check,
    valid=(
        _HEAD + _BODY.format(move=".cuda()", device=", device='cuda'"),
        _HEAD + _BODY.format(move="", device=""),
        _HEAD + _BODY.format(move=".cuda()", device="").replace("self.qkv(x), cu", "self.qkv(x), cu.cuda()"),
    ),
    invalid=(
        Invalid(_HEAD + _BODY.format(move=".cuda(non_blocking=True)", device=""), rows=(10,)),
        Invalid(
            "import torch\nfrom flash_attn import flash_attn_varlen_func\n\n\ndef run(model, docs):\n"
            "    x = torch.cat(docs).to('cuda')\n    q, k, v = model.project(x)\n    n = len(docs[0])\n    ends = [0]\n"
            "    for doc in docs:\n        ends.append(ends[-1] + len(doc))\n"
            "    ends = torch.tensor(ends, dtype=torch.int32)\n"
            "    return flash_attn_varlen_func(q, k, v, ends, ends, n, n)\n",
            rows=(13,),
        ),
    ),
)
