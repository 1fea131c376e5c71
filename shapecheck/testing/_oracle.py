"""What an oracle is, and how a call is broken in one place."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, NamedTuple

from shapecheck._contract import Preset
from shapecheck._layout import PackedLayout

Call = dict[str, Any]
"""The keyword arguments of one call."""


class Mutant(NamedTuple):
    """A call with one thing broken.

    Attributes:
        name: what is broken, and how: `"token_tags: unknown tag"`.
        call: its keyword arguments.
        level: the lowest level of a contract that reports it while the tensors are on the CPU. Of tensors on an
            accelerator, `host` sees what `shape` sees, and the rest takes `device` or `sync`.
    """

    name: str
    call: Call
    level: Literal["shape", "host"]


@dataclass(frozen=True)
class Oracle:
    """Valid and broken calls of one function.

    Attributes:
        name: of the oracle.
        preset: the contract.
        sample: a random layout that the function takes.
        build: see `call`.
        break_: see `mutants`.
    """

    name: str
    preset: Preset
    sample: Callable[[Random], PackedLayout]
    build: Callable[[PackedLayout], Call]
    break_: Callable[[Call], Iterator[Mutant]]

    def call(self, layout: PackedLayout) -> Call:
        """The keyword arguments of a valid call over `layout`, on its device, with data of zeros."""
        return self.build(layout)

    def mutants(self, call: Call) -> Iterator[Mutant]:
        """`call` broken in each way that it has room for. `call` itself stays as it is."""
        return self.break_(call)


def replaced(call: Call, path: str, value: Any) -> Call:
    """`call` with the value at `path` (`"packed_seq_params.cu_seqlens_q"`) replaced; nested mappings are copied."""
    key, _, rest = path.partition(".")
    inner = call.get(key)
    return {**call, key: replaced(dict(inner), rest, value) if rest and isinstance(inner, Mapping) else value}


def without(call: Call, path: str) -> Call:
    """`call` without the value at `path`."""
    key, _, rest = path.partition(".")
    if rest:
        return {**call, key: without(call[key], rest)}
    return {name: value for name, value in call.items() if name != key}


def at(call: Call, path: str) -> Any:
    """The value at `path`, None where there is nothing."""
    value: Any = call
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
