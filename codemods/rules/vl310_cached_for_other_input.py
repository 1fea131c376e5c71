"""Boundaries or a length are computed once and reused for inputs of other lengths.

### What it does
Reports metadata that is stored on an object the first time and read from there afterwards, where it depends on sizes or
lengths of the input that the test for a new computation does not look at.

### Why is this bad?
The second input is processed with the boundaries of the first one: rows are ignored or read past the end, silently.

### Example
```python
if self._seq_len is None:
    self._seq_len = x.shape[1]
lens = torch.full((x.shape[0],), self._seq_len)
```

### Use instead
```python
lens = torch.full((x.shape[0],), x.shape[1])
```

### Fix safety
No fix: compute it each time, or let the key of the cache hold everything that it depends on.

### References
- [vllm-ascend#10895](https://github.com/vllm-project/vllm-ascend/pull/10895)
"""

import ast
from collections.abc import Iterator

from shapecheck.codemods.engine.describe.bounds import bounds_of
from shapecheck.codemods.engine.describe.lengths import lens_of, plain
from shapecheck.codemods.engine.events import Binding
from shapecheck.codemods.engine.terms import Term
from shapecheck.codemods.findings import Finding
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import Argument, View

_ROLES = {
    *("bounds", "bounds_q", "bounds_k", "padded_q", "padded_k", "lens", "lens_q", "lens_k"),
    *("ends_q", "ends_k", "max", "max_q", "max_k", "block_mask"),
}
_SETTINGS = {"device", "dtype", "is_cuda", "training", "ndim"}


def check(view: View) -> Iterator[Finding]:
    """VL310."""
    if view.function.node.name == "__init__":
        return
    for binding in view.bindings:
        if not binding.context or not (binding.target.startswith("self.") or binding.value.op == "store"):
            continue
        name = binding.target.removeprefix("self.")
        cond, _ = binding.context[-1]
        if not name.isidentifier() or not _asks_for(cond, name, _places(binding, name) | _set_along(view, binding)):
            continue
        places = _places(binding, name)
        if name != binding.target and _stored_elsewhere(view, name):
            continue
        value, key = _stored(binding.value)
        computed = value.op == "call" or (value.op == "item" and value.args[0].op == "call")
        if not _is_metadata(value) and not computed:
            continue
        looked_at = set(_inputs(cond)) | (set() if key is None else set(_inputs(key)))
        # What the constructor got is the same for the whole life of the object.
        own = set(view.function.parameters.values())
        missing = [atom for atom in _inputs(value) if not _covered(atom, looked_at) and _root(atom[1]) in own]
        if not missing or not _is_used(view, places, value):
            continue
        on = _written(missing[0])
        yield view.finding(
            RULE,
            binding.node,
            f"`{binding.target}` is computed from {on} once and then reused for inputs where {on} is another one: the "
            f"test for a new computation does not look at it; compute it each time, or put {on} into the test",
            notes=[(cond.node, "the test for a new computation")],
        )


def _places(binding: Binding, name: str) -> set[Term]:
    """What is read where nothing was stored yet: the attribute, or the dict that gets an entry."""
    pool = binding.value.pool
    if binding.target != name:
        return {pool.make("attr", owner, name) for owner in _owners(binding)}
    return {binding.value.args[0]} if binding.value.op == "store" and _is_of_module(binding.value.args[0]) else set()


def _set_along(view: View, binding: Binding) -> set[Term]:
    """Further attributes that are set in the same branch: one of them may be what the test compares."""
    along = [other for other in view.bindings if other.context == binding.context and other.target.startswith("self.")]
    return {
        inner
        for inner in binding.context[-1][0].walk()
        if inner.op == "attr"
        and inner.args[0].op == "self"
        and any(other.target == f"self.{inner.args[1]}" for other in along)
    }


def _owners(binding: Binding) -> Iterator[Term]:
    for cond, _ in binding.context:
        for inner in cond.walk():
            if inner.op == "self":
                yield inner


def _is_of_module(base: Term) -> bool:
    """Whether a value is a name of the module, or a dict that starts empty there."""
    return base.op == "global" or (base.op == "dict" and len(base.args) == 1 and base.args[0].op == "star")


def _asks_for(cond: Term, name: str, places: set[Term]) -> bool:
    """Whether a condition asks if a place was written already."""
    return any(
        inner in places
        or (
            inner.op == "call"
            and inner.args[0] in {"hasattr", "getattr"}
            and any(arg.is_const(name) for arg in inner.children())
        )
        for inner in cond.walk()
    ) and not any(inner.op in {"Lt", "Gt", "LtE", "GtE"} for inner in cond.walk())


def _stored_elsewhere(view: View, name: str) -> bool:
    """Whether another method than `__init__` sets the attribute too: it may be the one that resets it."""
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del) and node.attr == name
        for method in view.methods
        if method is not view.function.node and getattr(method, "name", "") != "__init__"
        for node in ast.walk(method)
    )


def _stored(value: Term) -> tuple[Term, Term | None]:
    """What was stored, and the key if it is an entry of a dict."""
    if value.op == "store" and (value.args[0].op == "attr" or _is_of_module(value.args[0])):
        return value.args[2], value.args[1]
    return value, None


def _is_metadata(value: Term) -> bool:
    inner = plain(value)
    if bounds_of(value) is not None or inner.op in {"shape", "len", "numel", "max"}:
        return True
    if inner.op == "call" and str(inner.args[0]).rpartition(".")[2] in {"create_block_mask", "from_seqlens"}:
        return True
    return lens_of(value) is not None and inner.op != "list"


_Atom = tuple[str, Term, object]


def _inputs(term: Term) -> Iterator[_Atom]:
    """What a value depends on: sizes of inputs, and inputs themselves."""
    match term.op:
        case "shape":
            axis = term.args[1].value
            yield ("size", term.args[0], axis) if _is_input(term.args[0]) else ("size", term, None)
        case "len" | "numel":
            yield ("size", term.args[0], 0 if term.op == "len" else None)
        case "attr" if term.args[1] in _SETTINGS:
            return
        case "self" | "const" | "global" | "module":
            return
        case "moved" | "typed_like" | "cast":
            yield from _inputs(term.args[0])
        case _ if _is_input(term):
            yield ("value", term, None)
        case _:
            for child in term.children():
                yield from _inputs(child)


def _is_input(term: Term) -> bool:
    return _root(term).op == "parameter"


def _root(term: Term) -> Term:
    """The value that a field or item belongs to."""
    while term.op in {"attr", "item"} and (term.op == "attr" or term.args[1].op == "const"):
        term = term.args[0]
    return term


def _covered(atom: _Atom, looked_at: set[_Atom]) -> bool:
    kind, term, _ = atom
    if not _is_input(term):
        return True
    if (kind == "value" and _is_setting(term)) or atom in looked_at or ("value", term, None) in looked_at:
        return True
    return kind == "size" and ("size", term, None) in looked_at


def _is_setting(term: Term) -> bool:
    return term.op == "parameter" and term.args[0] in _SETTINGS


def _is_used(view: View, places: set[Term], value: Term) -> bool:
    """Whether the stored value reaches a role of metadata later on, on a path where it may be an old one."""
    given = [argument for consumer in view.consumers for argument in consumer.roles.values()]
    for call in view.calls:
        for word, term in call.kwargs.items():
            role = "block_mask" if word in {"block_mask", "attn_bias"} else view.catalogue.role_of(word) or ""
            given.append(Argument(role, word, term, call.node))
    if bounds_of(value) is not None:
        given += [Argument("bounds", "", returned.value, returned.node) for returned in view.returns]
    return any(
        inner.op == "phi"
        and any(value in set(side.walk()) for side in inner.args[1:])
        and any(side.op == "unbound" or places & set(side.walk()) for side in inner.args[1:])
        for argument in given
        if argument.role in _ROLES
        for inner in argument.term.walk()
    )


def _written(atom: _Atom) -> str:
    kind, term, axis = atom
    name = (
        term.args[0] if term.op == "parameter" else (ast.unparse(term.node) if term.node is not None else "the input")
    )
    if kind == "value":
        return f"`{name}`"
    return f"`{name}.shape[{axis}]`" if axis is not None else f"the size of `{name}`"


_HEAD = "import torch\nimport torch.nn.functional as F\nfrom flash_attn import flash_attn_varlen_qkvpacked_func\n\n\n"

RULE = Rule(
    "VL310",
    "cached-for-other-input",
    "stable",
    __doc__,
    check,
    valid=(
        f"{_HEAD}class A:\n    def forward(self, x, seqlens):\n"
        f"        if self.cu is None or not torch.equal(self.seen, seqlens):\n"
        "            self.cu = F.pad(seqlens.cumsum(0), (1, 0))\n            self.seen = seqlens\n"
        "        return self.block(x, cu_seqlens=self.cu)\n",
        f"{_HEAD}class A:\n    def forward(self, x):\n        batch, n = x.shape[:2]\n        key = (batch, n)\n"
        "        if key not in self.cu:\n            self.cu[key] = torch.arange(0, (batch + 1) * n, n)\n"
        "        return self.block(x, cu_seqlens=self.cu[key])\n",
        "import torch\n\n\nclass A:\n    def forward(self, x):\n        if self.n is None or self.n != x.shape[1]:\n"
        "            self.n = x.shape[1]\n        return self.block(x, seq_lens=torch.full((x.shape[0],), self.n))\n",
        "class Batches:\n    def __init__(self, config):\n        self.config = config\n        self.tokenizer = None\n\n"
        "    def collate(self, build, texts):\n        if self.tokenizer is None:\n            self.tokenizer = build(self.config)\n"
        "        return dict(lens=[len(self.tokenizer(text)) for text in texts], seqlens=self.tokenizer(texts))\n",
    ),
    invalid=(
        Invalid(
            f"{_HEAD}class A:\n    def forward(self, x):\n        batch, n = x.shape[:2]\n        if self.size != batch:\n"
            "            self.size = batch\n            self.cu = torch.arange(0, (batch + 1) * n, n)\n"
            "        return self.block(x, cu_seqlens=self.cu)\n",
            rows=(11,),
        ),
        Invalid(
            "import torch\n\n\nclass A:\n    def forward(self, x):\n        if self.n is None:\n"
            "            self.n = x.shape[1]\n"
            "        return self.block(x, seq_lens=torch.full((x.shape[0],), self.n))\n",
            rows=(7,),
        ),
        Invalid(
            f"{_HEAD}class A:\n    def forward(self, x, seqlens):\n"
            f"        if self.cu is None or len(self.cu) != len(seqlens) + 1:\n"
            "            self.cu = F.pad(seqlens.cumsum(0), (1, 0))\n"
            "        return self.block(x, cu_seqlens=self.cu)\n",
            rows=(9,),
        ),
        Invalid(
            f"{_HEAD}class A:\n    def forward(self, x):\n        batch, n = x.shape[:2]\n"
            f"        if batch not in self.cu:\n"
            "            self.cu[batch] = torch.arange(0, (batch + 1) * n, n)\n"
            "        return self.block(x, cu_seqlens=self.cu[batch])\n",
            rows=(10,),
        ),
    ),
)
