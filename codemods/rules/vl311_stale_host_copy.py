"""A copy on the host was taken before the array on the device was changed.

### What it does
Reports a value and its copy (`cu_seqlens` and `cu_seqlens_cpu`, `seq_lens` and `seq_lens_list`) that travel together,
where one was changed after the other was copied from it; and a field that is changed where the class has a field for its
copy, which is not.

### Why is this bad?
Both are meant to hold the same numbers: the kernel reads one, the plan of its tiles is made from the other. Work for
the last segments is left out, or reads past the end.

### Example
```python
cu_seqlens_cpu = cu_seqlens.cpu()
cu_seqlens = torch.cat([cu_seqlens, cu_seqlens[-1:] + extra])
out = chunk_rule(q, k, v, cu_seqlens=cu_seqlens, cu_seqlens_cpu=cu_seqlens_cpu)
```

### Use instead
```python
cu_seqlens = torch.cat([cu_seqlens, cu_seqlens[-1:] + extra])
cu_seqlens_cpu = cu_seqlens.cpu()
out = chunk_rule(q, k, v, cu_seqlens=cu_seqlens, cu_seqlens_cpu=cu_seqlens_cpu)
```

### Fix safety
No fix: the copy has to move, or to be changed as well.

### References
- [xtuner#1081](https://github.com/InternLM/xtuner/pull/1081)
"""

import ast
import re
from collections.abc import Iterator, Sequence

from shapecheck.codemods.compare import worlds
from shapecheck.codemods.engine.describe.lengths import plain
from shapecheck.codemods.engine.events import Binding, Context, Return
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.class_fields import fields_of_classes
from shapecheck.codemods.queries.partings import conditions, first_round, place, shown
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View

_COPY = re.compile(r"_?(cpu|host|list|np|numpy|pinned|gpu|device|cuda|npu)$|^(cpu|host|gpu)_")


_CHANGING = {"cat", "pad", "Add", "Sub", "Mult", "FloorDiv", "append", "extend"}
_ROWS = {"q", "k", "v", "kv", "qkv", "x", "rows"}
_COUNTS = {"bounds", "bounds_q", "bounds_k", "ends_q", "ends_k", "lens", "lens_q", "lens_k"}


def check(view: View) -> Iterator[Finding]:
    """VL311."""
    yield from _beside_padded_rows(view)
    yield from _slices_of_padded_rows(view)
    yield from _copies_in_fields(view)
    seen: set[Term] = set()
    for group in _groups(view):
        named = {member.name: member for member in group}
        for name, copied in named.items():
            original = named.get(_COPY.sub("", name)) if _COPY.search(name) else None
            if original is None or original is copied or copied.term in seen:
                continue
            for stale, changed in ((copied, original), (original, copied)):
                change = _changed_since(stale.term, changed.term) or _in_rounds(view, stale.term, changed.term)
                if change is not None:
                    seen.add(copied.term)
                    yield view.finding(
                        RULE,
                        stale.node,
                        f"`{shown(stale)}` is a copy made before `{shown(changed)}` was changed{place(view, change)}, "
                        "so the two no longer hold the same numbers; copy after the change",
                        notes=[(stale.term.node, "copied here"), (change.node, "changed here")],
                    )
                    break


def _beside_padded_rows(view: View) -> Iterator[Finding]:
    """A copy that a call takes with rows that were padded in the very branch in which the array got its tail."""
    extended = [binding for binding in view.bindings if binding.context and binding.value.op in {"cat", "pad"}]
    seen: set[Term] = set()
    for consumer in view.consumers if extended else ():
        rows = [argument for argument in consumer.roles.values() if argument.role in _ROWS]
        for stale in consumer.roles.values():
            if stale.role not in _COUNTS or stale.term.conditions or stale.term in seen:
                continue
            copied = {plain(inner) for inner in stale.term.walk() if inner.op == "host"}
            for binding in extended:
                cond = binding.context[-1][0]
                array = _spine(binding.value)
                used = any(binding.value in set(argument.term.walk()) for argument in consumer.roles.values())
                if used or not any(array & set(inner.walk()) for inner in copied):
                    continue
                padded = next((argument for argument in rows if _pads_under(argument.term, cond)), None)
                if padded is not None:
                    seen.add(stale.term)
                    yield view.finding(
                        RULE,
                        stale.node,
                        f"`{shown(stale)}` was copied{place(view, stale.term)} before `{binding.target}` got an entry "
                        f"for the padding{place(view, binding.value)}, so it ends before the padded rows of "
                        f"`{shown(padded)}`; copy after the change",
                        notes=[(stale.term.node, "copied here"), (binding.node, "entry for the padding added here")],
                    )
                    break


def _slices_of_padded_rows(view: View) -> Iterator[Finding]:
    """Padded rows plus what was computed from their slices between the old boundaries: the padding is missing in the latter."""
    extended = [binding for binding in view.bindings if binding.context and binding.value.op in {"cat", "pad"}]
    events: list[Binding | Return] = [*view.bindings, *view.returns]
    for binding in extended:
        cond, array = binding.context[-1][0], _spine(binding.value)
        for total in (inner for event in events for inner in event.value.walk() if inner.op in {"Add", "Mult"}):
            for rows, other in (total.args, reversed(total.args)):
                cut = next((inner for inner in other.walk() if inner.op == "item" and inner.args[0] is rows), None)
                if cut is None or cut.args[1].op != "slice" or not _pads_under(rows, cond) or cut.node is None:
                    continue
                old = {plain(inner) for inner in cut.args[1].walk() if inner.op == "host"}
                if old & array:
                    yield view.finding(
                        RULE,
                        cut.node,
                        f"the rows were padded and `{binding.target}` got an entry for it{place(view, binding.value)}, but "
                        "these slices go by a copy made before that, so their results lack the padding; copy after the change",
                        notes=[(binding.node, "entry for the padding added here")],
                    )
                    return


def _copies_in_fields(view: View) -> Iterator[Finding]:
    """A field that was changed, while the field of the same class with its copy was not touched."""
    for base, name, node in (*_changed_fields(view), *_replaced_fields(view)):
        plain_name = _COPY.sub("", name)
        for fields in fields_of_classes(view, name):
            other = next((one for one in fields if one != name and _COPY.sub("", one) == plain_name), None)
            if other is None or _is_handled(view, base, other):
                continue
            yield view.finding(
                RULE,
                node,
                f"`{base}.{name}` is changed, but `{base}.{other}`, the field with the same numbers, is not; change both",
            )
            break


def _changed_fields(view: View) -> Iterator[tuple[str, str, ast.AST]]:
    for binding in view.bindings:
        if binding.value.op in _CHANGING and _is_grown_field(binding):
            base, _, name = binding.target.rpartition(".")
            yield base, name, binding.node


def _replaced_fields(view: View) -> Iterator[tuple[str, str, ast.AST]]:
    """`replace(meta, starts=torch.cat([meta.starts, tail]))`."""
    for call in view.calls:
        owner = call.args[0] if call.name == "replace" and len(call.args) == 1 else None
        if owner is not None and owner.op == "parameter":
            for name, value in call.kwargs.items():
                field = value.pool.make("attr", owner, name)
                if value.op in _CHANGING and field in _spine(value):
                    yield str(owner.args[0]), name, call.arg_node(None, name) or call.node


def _is_grown_field(binding: Binding) -> bool:
    """`meta.starts = torch.cat([meta.starts, tail])`."""
    base, _, name = binding.target.rpartition(".")
    return any(
        one.op == "attr"
        and one.args[1] == name
        and (one.args[0].op == "self" if base == "self" else _is_given(one.args[0], base))
        for one in _spine(binding.value)
    )


def _is_replace(func: ast.expr) -> bool:
    return ast.unparse(func).rpartition(".")[2] == "replace"


def _is_given(term: Term, name: str) -> bool:
    return term.op == "parameter" and bool(term.args[0] == name)


def _is_handled(view: View, base: str, other: str) -> bool:
    """Whether the function names the other field, or gives the object to a call that may set it."""
    for node in view.nodes:
        match node:
            case ast.Attribute(attr=name) | ast.keyword(arg=name) if name == other:
                return True
            case ast.Call(args=args, func=func) if not _is_replace(func):
                owner = func.value if isinstance(func, ast.Attribute) else None
                if any(isinstance(one, ast.Name) and one.id == base for one in (*args, owner)):
                    return True
    return False


def _pads_under(rows: Term, cond: Term) -> bool:
    return any(
        inner.op == "phi" and inner.args[0] is cond and any(side.op == "pad" for side in inner.args[1:])
        for inner in rows.walk()
    )


def _groups(view: View) -> Iterator[Sequence[Argument]]:
    for call in view.calls:
        if len(call.kwargs) > 1 and any(_COPY.search(name) for name in call.kwargs):
            yield [
                Argument("", word.arg, call.kwargs[word.arg], word.value)
                for word in call.node.keywords
                if word.arg is not None and word.arg in call.kwargs
            ]
    fields: dict[tuple[str, Context], dict[str, Argument]] = {}
    for binding in view.bindings:
        base, _, name = binding.target.rpartition(".")
        if base and name.isidentifier():
            argument = Argument("", name, binding.value, binding.value_node or binding.node)
            fields.setdefault((base, binding.context), {})[name] = argument
    for members in fields.values():
        if any(_COPY.search(name) for name in members):
            yield list(members.values())
    for bundle in view.bundles:
        if any(_COPY.search(member.name) for member in bundle.members):
            yield [member for member in bundle.members if member.name]


def _changed_since(stale: Term, changed: Term) -> Term | None:
    """The change, where `changed` certainly is the value that `stale` copies, changed."""
    stale, changed = first_round(stale), first_round(changed)
    if conditions(stale):
        return None
    source = plain(stale)
    for (world,) in worlds(changed):
        whole = plain(world)
        if whole is source or source.op == "const":
            continue
        if source in _spine(whole):
            return whole
    return None


def _in_rounds(view: View, stale: Term, changed: Term) -> Term | None:
    """The change at the end of each round of a loop, where the copy is of the value before the first."""
    if changed.op != "round" or stale.op == "round" or conditions(stale):
        return None
    start = changed.pool.first_round.get(changed)
    if start is None or plain(start) is not plain(stale):
        return None
    rounds = (binding.value for binding in view.bindings if binding.target == changed.args[0])
    return next((value for value in rounds if changed in _spine(plain(value))), None)


def _spine(term: Term) -> set[Term]:
    """The values that a value is a changed version of."""
    found: set[Term] = set()
    while True:
        match term.op:
            case "cat" if term.args[1].op in {"list", "tuple"} and term.args[1].args:
                term = plain(term.args[1].args[0])
            case "Add" | "Sub" | "Mult" | "FloorDiv" | "pad" | "store" | "append" | "extend" | "filled":
                term = plain(term.args[0])
            case "elementwise" if term.args[0] in {"clamp", "clip", "clamp_min", "clamp_max", "masked_fill"}:
                term = plain(term.args[1])
            case "item" if term.args[1].op not in {"slice", "const", "tuple", "elem", "index_in", "round"}:
                term = plain(term.args[0])
            case _:
                return found
        found.add(term)


RULE = Rule(
    "VL311",
    "stale-host-copy",
    "stable",
    __doc__,
    check,
    valid=(
        "import torch\n\n\ndef f(kernel, q, cu_seqlens, extra):\n"
        "    cu_seqlens = torch.cat([cu_seqlens, cu_seqlens[-1:] + extra])\n    cu_seqlens_cpu = cu_seqlens.cpu()\n"
        "    return kernel(q, cu_seqlens=cu_seqlens, cu_seqlens_cpu=cu_seqlens_cpu)\n",
        "import torch\n\n\ndef both_changed(kernel, q, cu_seqlens, rows):\n    limits = cu_seqlens.tolist()\n"
        "    cu_seqlens = torch.cat([cu_seqlens, cu_seqlens.new_tensor([rows])])\n    limits.append(rows)\n"
        "    return kernel(q, cu_seqlens=cu_seqlens, cu_seqlens_list=limits)\n",
    ),
    invalid=(
        Invalid(
            "import torch\n\n\nclass Meta:\n    starts: torch.Tensor\n    starts_cpu: torch.Tensor\n\n\ndef pad(meta, n):\n"
            "    meta.starts = torch.cat([meta.starts, meta.starts[-1:].expand(n)])\n    return meta  # cu_seqlens\n",
            rows=(10,),
        ),
        Invalid(
            "def f(cu_seqlens, blocks, x):\n    cu_seqlens_cpu = cu_seqlens.cpu()\n    for block in blocks:\n"
            "        x = block(x, cu_seqlens=cu_seqlens, cu_seqlens_cpu=cu_seqlens_cpu)\n"
            "        cu_seqlens = cu_seqlens // 2\n    return x\n",
            rows=(4,),
        ),
        Invalid(
            "import torch\n\n\ndef f(kernel, q, cu_seqlens, extra):\n    cu_seqlens_cpu = cu_seqlens.cpu()\n"
            "    if extra:\n"
            "        cu_seqlens = torch.cat([cu_seqlens, cu_seqlens[-1:] + extra])\n"
            "    return kernel(q, cu_seqlens=cu_seqlens, cu_seqlens_cpu=cu_seqlens_cpu)\n",
            rows=(8,),
        ),
        Invalid(
            "def f(build, seq_lens, steps):\n    seq_lens_cpu = seq_lens.cpu()\n    for _ in range(steps):\n"
            "        seq_lens = seq_lens + 1\n        build(seq_lens=seq_lens, seq_lens_cpu=seq_lens_cpu)\n",
            rows=(5,),
        ),
    ),
)
