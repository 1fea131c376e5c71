"""The unused tail of a boundary buffer is filled with a number below the last boundary.

### What it does
Reports a class or function that writes boundaries into the front of a buffer, fills the tail behind them with -1 or 0, and also reads the
buffer at another, padded length.

### Why is this bad?
Boundaries must not decrease. A padded request that reads the tail gets a negative length: kernels index out of bounds or hang.

### Example
```python
buffer[1 : num_reqs + 1] = ends
buffer[num_reqs + 1 :].fill_(-1)
```

### Use instead
```python
buffer[1 : num_reqs + 1] = ends
buffer[num_reqs + 1 :].fill_(ends[-1])
```

### Fix safety
No fix: the value of the last boundary may live on another device than the buffer.

### References
- [vLLM: attention metadata](https://github.com/vllm-project/vllm)
"""

import ast
import re
from collections.abc import Iterator

from shapecheck.codemods.findings import Finding
from shapecheck.codemods.queries.inplace import Write, writes, written
from shapecheck.codemods.queries.slots import BOUNDS
from shapecheck.codemods.rule import Invalid, Rule
from shapecheck.codemods.view import View

_SIDES = {"np", "cpu", "gpu", "numpy", "device", "host"}  # the two halves of a mirrored buffer
_SIDE = re.compile(r"_(np|cpu|gpu|numpy|device|host|buffer|buf)$")


def check(view: View) -> Iterator[Finding]:
    """VL110."""
    if "store" not in view.module.pool.by_op:
        return
    if not any(isinstance(node, ast.Slice) and _is_tail(node) for node in view.nodes):
        return
    made = list(writes(view.nodes))
    for tail in made:
        fill = _fill(tail.node)
        if (
            fill is None
            or not isinstance(tail.index, ast.Slice)
            or not _is_tail(tail.index)
            or tail.index.lower is None
        ):
            continue
        end = ast.unparse(tail.index.lower)
        front = next(
            (write for write in made if _buffer(write.base) == _buffer(tail.base) and _is_front(write, end)), None
        )
        if front is None or not _holds_boundaries(view, tail.base) or _written_again(tail, made):
            continue
        if _handed_on(view, _buffer(tail.base)):
            continue
        read = _read_elsewhere(view, _buffer(tail.base), end)
        if read is not None:
            yield view.finding(
                RULE,
                tail.node,
                f"the tail of the boundaries `{_buffer(tail.base)}` is filled with {fill}, which is below the last boundary, but it is "
                f"read as `{ast.unparse(read)}`{view.line(read)} too: padded segments get negative lengths; fill it with the last boundary",
                notes=[(front.node, "the boundaries in use"), (read, "reads the tail as well")],
            )


def _written_again(tail: Write, made: list[Write]) -> bool:
    """Whether another write covers the tail; its order is not asked."""
    return any(
        other is not tail
        and _buffer(other.base) == _buffer(tail.base)
        and (other.index is None or (isinstance(other.index, ast.Slice) and other.index.upper is None))
        for other in made
    )


def _handed_on(view: View, buffer: str) -> bool:
    """Whether the class gives the buffer to a call, which may fill the tail."""
    return any(
        isinstance(given, ast.Name | ast.Attribute) and written(given) == buffer
        for member in view.of_class()
        for node in member.nodes
        if isinstance(node, ast.Call)
        for given in node.args
    )


def _is_tail(index: ast.Slice) -> bool:
    """Whether a slice runs from a computed place to the end."""
    return index.upper is None and index.lower is not None and not isinstance(index.lower, ast.Constant)


def _fill(node: ast.AST) -> int | None:
    """The number that a write fills in, if it is 0 or less."""
    match node:
        case ast.Assign(value=value) | ast.Call(func=ast.Attribute(attr="fill_" | "fill"), args=[value]):
            pass
        case ast.Call(func=ast.Attribute(attr="zero_")):
            return 0
        case _:
            return None
    try:
        number = ast.literal_eval(value)
    except ValueError:
        return None
    return number if type(number) is int and number <= 0 else None


def _is_front(write: Write, end: str) -> bool:
    """Whether a write covers entries 1 to `end`."""
    index = write.index
    return (
        isinstance(index, ast.Slice)
        and isinstance(index.lower, ast.Constant)
        and index.lower.value == 1
        and index.upper is not None
        and ast.unparse(index.upper) == end
    )


def _buffer(base: str) -> str:
    head, _, last = base.rpartition(".")
    return head if head and last in _SIDES else base


def _holds_boundaries(view: View, base: str) -> bool:
    name = _buffer(base).rpartition(".")[2]
    return view.catalogue.role_of(_SIDE.sub("", name)) in BOUNDS


def _read_elsewhere(view: View, buffer: str, end: str) -> ast.expr | None:
    """A slice of the front of the buffer that has another end, in the class (or in the function)."""
    for node in (node for member in view.of_class() for node in member.nodes):
        match node:
            case ast.Subscript(value=value, slice=ast.Slice(lower=None, upper=upper), ctx=ast.Load()) if (
                upper is not None
            ):
                base = written(value)
                if (
                    base is not None
                    and _buffer(base) == buffer
                    and ast.unparse(upper) != end
                    and not isinstance(upper, ast.Constant)
                ):
                    return node
            case ast.Return(value=ast.Name() | ast.Attribute() as whole) if (base := written(whole)) is not None:
                if _buffer(base) == buffer:
                    return whole
    return None


RULE = Rule(
    "VL110",
    "tail-of-boundaries-below-end",
    "stable",
    __doc__,
    check,
    valid=(
        "class Bounds:\n    def update(self, ends, n):\n        self.query_start_loc[1 : n + 1] = ends\n"
        "        self.query_start_loc[n + 1 :].fill_(int(ends[-1]))\n\n    def padded(self, size):\n"
        "        return self.query_start_loc[: size + 1]\n",
        "class Bounds:\n    def update(self, ends, n):\n        self.query_start_loc[1 : n + 1] = ends\n"
        "        self.query_start_loc[n + 1 :].fill_(-1)\n        return self.query_start_loc[: n + 1]\n",
        "class Bounds:\n    def update(self, ends, n, size):\n        self.cu_seqlens[1 : n + 1] = ends\n"
        "        self.cu_seqlens[n + 1 :] = 0\n        self.cu_seqlens[n + 1 :] += ends[-1]\n"
        "        return self.cu_seqlens[: size + 1]\n",
        "class Bounds:\n    def update(self, ends, n):\n        self.query_start_loc.np[1 : n + 1] = ends\n"
        "        self.query_start_loc.gpu[n + 1 :].fill_(-1)\n\n    def padded(self, size):\n"
        "        self.pad_for_graph(self.query_start_loc, size)\n        return self.query_start_loc.gpu[: size + 1]\n",
        "class Bounds:\n    def update(self, lens, n):\n        self.seq_lens[1 : n + 1] = lens\n"
        "        self.seq_lens[n + 1 :].fill_(0)\n\n    def padded(self, size):\n        return self.seq_lens[: size + 1]\n",
    ),
    invalid=(
        Invalid(
            "class Bounds:\n    def update(self, ends, n):\n        self.query_start_loc.np[1 : n + 1] = ends\n"
            "        self.query_start_loc.gpu[n + 1 :].fill_(-1)\n\n    def padded(self, size):\n"
            "        return self.query_start_loc.gpu[: size + 1]\n",
            rows=(4,),
        ),
        Invalid(
            "def f(cu_seqlens, ends, n, graph_size):\n    cu_seqlens[1 : n + 1].copy_(ends)\n    cu_seqlens[n + 1 :] = 0\n"
            "    return cu_seqlens[: graph_size + 1]\n",
            rows=(3,),
        ),
    ),
)
