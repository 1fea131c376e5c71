"""What every value invariant is: one statement, read by each enforcer in its own way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

INT32_MAX = 2**31 - 1

SHORT = 256
"""Up to so many values a Python list is quicker than tensor operations."""

MAX_SHOWN = 8
"""No message prints more values of a tensor than this."""


class Scope(NamedTuple):
    """What an invariant may read besides its own argument.

    Attributes:
        symbols: sizes of the axis symbols bound by the call.
        bound_by: for each symbol, the argument and axis that bound it.
        arguments: the call's other arguments by name; one that is not at hand is absent.
    """

    symbols: Mapping[str, int] = MappingProxyType({})
    bound_by: Mapping[str, tuple[str, int]] = MappingProxyType({})
    arguments: Mapping[str, Any] = MappingProxyType({})

    def origins(self, symbols: Sequence[str]) -> "tuple[Origin, ...]":
        """Where each of `symbols` came from, as far as that is known."""
        return tuple(Origin(one, self.symbols[one], *self.bound_by[one]) for one in symbols if one in self.bound_by)


class Origin(NamedTuple):
    """The argument and axis that bound a symbol to a size."""

    symbol: str
    size: int
    argument: str
    axis: int

    def __str__(self) -> str:
        return f"{self.symbol} = {self.size} was bound by {self.argument} axis {self.axis}"


@dataclass(frozen=True)
class Finding:
    """One broken invariant. `problem` continues the argument's name: `[-1] is 700, expected 715`."""

    problem: str
    expected: Any
    actual: Any
    axis: int | None = None
    bound_by: str | None = None
    notes: tuple[str, ...] = ()
    hint: str | None = None
    symbol: str | None = None  # the axis symbol that `expected` is the size of


@dataclass(frozen=True)
class Operand:
    """Source of a tensor and of its shape, in generated code."""

    name: str
    shape: str


class Invariant:
    """Base of the invariants that stand in `Annotated[...]`.

    One statement in several forms, which the tests hold against each other: `holds` is its definition, `find_static`
    and `find` explain, and the `_code` methods are source for the generated checks.
    """

    def reads_values(self) -> bool:
        """False for invariants over shapes and devices, which cost nothing in a compiled region."""
        return True

    @classmethod
    def rebuild(cls, fields: dict[str, Any]) -> "Invariant":
        """The invariant whose `dataclasses.asdict` is `fields`."""
        return cls(**fields)

    def symbols(self) -> tuple[str, ...]:
        """The axis symbols it reads."""
        return ()

    def arguments(self) -> tuple[str, ...]:
        """The other arguments it reads."""
        return ()

    def suits(self, *, tensor: bool, number: bool) -> bool:
        """Whether it can stand at a tensor, or at a Python number; neither means a sequence, or anything."""
        return not number

    def dtypes(self) -> tuple[str, ...] | None:
        """The torch dtypes of which it can be true, or None for any."""
        return None

    def looks_at(self, value: Any) -> bool:
        """Whether `find` and `holds` make sense of `value`, something on the host; else it is unknown, and passes."""
        if is_tensor(value):
            return value.dim() == 1 and not value.is_complex()
        return isinstance(value, (list, tuple)) and all(isinstance(one, (int, float)) for one in value)

    def find_static(self, value: Any, scope: Scope) -> Finding | None:
        """The violation, if any, in shape, dtype or device of `value`, a tensor or what stands for one."""
        return None

    def refusal_code(self, own: Operand, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str | None:
        """Source of the condition under which `find_static` finds something, or None where it never does.

        Args:
            own: the tensor.
            symbols: source of each axis symbol that the call surely binds.
            others: the tensors among the call's other arguments.
        """
        return None

    def find(self, value: Any, scope: Scope) -> Finding | None:
        """The first violation in `value`: a CPU tensor, a Python number, or a sequence of numbers."""
        raise NotImplementedError

    def holds(self, values: Sequence[Any], scope: Scope) -> bool:
        """Whether the statement is true of the flattened `values`: its plain definition, quick for short arrays."""
        raise NotImplementedError

    def condition_code(self, name: str, symbols: Mapping[str, str], others: Mapping[str, Operand]) -> str | None:
        """The statement as Python source for a 0-d bool tensor, computed on the device without a sync.

        Args:
            name: source of the tensor.
            symbols: source of each axis symbol that the call surely binds.
            others: the tensors among the call's other arguments.

        Returns None where the device has nothing to check.
        """
        raise NotImplementedError


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor, without importing torch for values that are plain Python."""
    return hasattr(type(value), "data_ptr")


def host_list(value: Any) -> list[Any]:
    """A tensor on the host, or a sequence, as a list."""
    values: list[Any] = value.flatten().tolist() if is_tensor(value) else list(value)
    return values


def listed(values: Sequence[Any]) -> str:
    """`values` for a message, at most `MAX_SHOWN` of them."""
    shown = ", ".join(map(str, values[:MAX_SHOWN]))
    return f"[{shown}, ... {len(values)} values]" if len(values) > MAX_SHOWN else f"[{shown}]"


def shown(value: Any) -> str:
    """`value` for a message, whatever its repr does."""
    try:
        text = repr(value)
    except Exception:  # an int of too many digits, an object with a broken repr
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
