"""Where the transfer functions register, and the view of a call that they get."""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shapecheck.codemods.engine.terms import Pool, Term

# numpy also takes the dtype by position.
_NUMPY_DTYPE_AT = {
    "zeros": 1,
    "ones": 1,
    "empty": 1,
    "array": 1,
    "asarray": 1,
    "zeros_like": 1,
    "ones_like": 1,
    "empty_like": 1,
    "full": 2,
    "full_like": 2,
    "cumsum": 2,
}


@dataclass
class CallView:
    """The arguments of one call. For methods of tensors and arrays the receiver is argument 0."""

    pool: Pool
    node: ast.Call
    args: list[Term | None]
    kwargs: dict[str, Term]
    path: str

    def arg(self, position: int, *names: str) -> Term | None:
        """The argument at a position, or by one of its names."""
        for name in names:
            if name in self.kwargs:
                return self.kwargs[name]
        if position < len(self.args) and None not in self.args[: position + 1]:
            return self.args[position]
        return None

    def make(self, op: str, *args: Any) -> Term:
        """A term that starts at this call."""
        return self.pool.make(op, *args, node=self.node)

    def const(self, value: Any) -> Term:
        """A constant."""
        return self.pool.const(value)

    def opaque(self) -> Term:
        """The call, uninterpreted: equal arguments, equal value."""
        parts = [arg if arg is not None else self.make("splat") for arg in self.args]
        named = [self.make("keyword", name, value) for name, value in sorted(self.kwargs.items())]
        return self.make("call", self.path, *parts, *named)

    def with_dtype(self, term: Term) -> Term:
        """`term`, cast if the call gives a dtype."""
        given = self.kwargs.get("dtype")
        if given is None and self.path.startswith("numpy."):
            position = _NUMPY_DTYPE_AT.get(self.path.rpartition(".")[2])
            given = None if position is None else self.arg(position)
        return term if given is None or given.is_const(None) else self.make("cast", term, dtype_name(given))


Transfer = Callable[[CallView], Term | None]

FUNCTIONS: dict[str, Transfer] = {}  # by dotted path, such as torch.cat
METHODS: dict[str, Transfer] = {}  # by method name
RESULTS: dict[str, Callable[[Pool, Term, int], Term | None]] = {}  # by operation: what its i-th result is


def function(*paths: str) -> Callable[[Transfer], Transfer]:
    """Register for functions, by dotted path."""

    def register(transfer: Transfer) -> Transfer:
        for path in paths:
            FUNCTIONS[path] = transfer
        return transfer

    return register


def method(*names: str) -> Callable[[Transfer], Transfer]:
    """Register for methods."""

    def register(transfer: Transfer) -> Transfer:
        for name in names:
            METHODS[name] = transfer
        return transfer

    return register


def tensor_operation(*names: str) -> Callable[[Transfer], Transfer]:
    """Register for `torch.name(x, ...)`, `numpy.name(x, ...)` and `x.name(...)`."""

    def register(transfer: Transfer) -> Transfer:
        for name in names:
            FUNCTIONS[f"torch.{name}"] = transfer
            FUNCTIONS[f"numpy.{name}"] = transfer
            METHODS[name] = transfer
        return transfer

    return register


def results(*operations: str) -> Callable[[Any], Any]:
    """Register what the i-th result of an operation is."""

    def register(transfer: Callable[[Pool, Term, int], Term | None]) -> Any:
        for operation in operations:
            RESULTS[operation] = transfer
        return transfer

    return register


_DTYPES = {
    "int": "int32",
    "int32": "int32",
    "intc": "int32",
    "long": "int64",
    "int64": "int64",
    "int_": "int64",
    "longlong": "int64",
    "bool": "bool",
    "bool_": "bool",
}


def dtype_name(term: Term) -> str:
    """`int32`, `int64`, `bool` or `?` for a dtype argument."""
    if term.op == "module":
        root, _, last = str(term.args[0]).rpartition(".")
        if root in {"torch", "numpy", "jax.numpy"}:
            return _DTYPES.get(last, last)
    if term.op == "global" and term.args[0] == "int":
        return "int64"
    if term.op == "const" and isinstance(term.value, str):
        return _DTYPES.get(term.value, "?")
    return "?"
