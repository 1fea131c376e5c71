"""A contract as data: what every enforcer reads. Plain values that survive JSON, so that an op in a compiled graph can
carry its contract along, through inductor's caches and into other processes."""

import dataclasses
import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import shapecheck._invariants as invariants
from shapecheck._contract._dims import Dim, parse_dims
from shapecheck._contract._plan import Plan, make_plan
from shapecheck._invariants import Invariant


@dataclass(frozen=True)
class TensorSpec:
    """What an annotation says of a tensor.

    Attributes:
        text: the annotation as the user would write it, for messages.
        dims: the axis string, or None for a bare `Tensor`.
        dtypes: names of the torch dtypes allowed, or None for any.
    """

    text: str
    dims: str | None
    dtypes: tuple[str, ...] | None

    @cached_property
    def axes(self) -> tuple[Dim, ...]:
        return parse_dims(self.dims or "")


@dataclass(frozen=True)
class Argument:
    """One annotated argument, or the result.

    Attributes:
        name: as in the signature; `"return"`, or `"return[i]"` for one of several results.
        optional: whether None is fine.
        tensor: what is asked of a tensor, or None for an argument that is none.
        invariants: value invariants, in the order written.
        hint: text of the hint of an argument that is no tensor, or None.
        number: whether that hint admits nothing but Python numbers, so that their invariants become guards.
    """

    name: str
    optional: bool = False
    tensor: TensorSpec | None = None
    invariants: tuple[Invariant, ...] = ()
    hint: str | None = None
    number: bool = False


@dataclass(frozen=True)
class Spec:
    """One contract.

    Attributes:
        function: qualified name, for messages.
        arguments: annotated arguments in signature order.
        returns: the results that are checked, `()` for none.
        returns_tuple: whether the function returns a tuple of them.
    """

    function: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...] = ()
    returns_tuple: bool = False

    @cached_property
    def plan(self) -> Plan:
        return make_plan(self.arguments, self.returns)

    @cached_property
    def by_name(self) -> dict[str, Argument]:
        return {argument.name: argument for argument in (*self.arguments, *self.returns)}

    @cached_property
    def valued(self) -> tuple[Argument, ...]:
        """Tensors and sequences whose values are checked."""
        return tuple(one for one in self.arguments if self.value_invariants(one) and not one.number)

    def value_invariants(self, argument: Argument) -> tuple[Invariant, ...]:
        """The invariants that have to look at values: also those over shapes, where one side is no tensor."""
        return self._value_invariants[argument.name]

    @cached_property
    def _value_invariants(self) -> dict[str, tuple[Invariant, ...]]:
        return {
            argument.name: tuple(
                one
                for one in argument.invariants
                if one.reads_values()
                or argument.tensor is None
                or any(self.by_name[name].tensor is None for name in one.arguments())
            )
            for argument in self.arguments
        }

    @cached_property
    def value_checks(self) -> tuple[tuple[str, tuple[Invariant, ...]], ...]:
        """The same with their invariants, by name."""
        return tuple((argument.name, self.value_invariants(argument)) for argument in self.valued)

    @cached_property
    def value_operands(self) -> tuple[str, ...]:
        """Names of the arguments that the value checks read: the checked ones and those that they refer to."""
        names = [argument.name for argument in self.valued]
        for argument in self.valued:
            names += [name for invariant in self.value_invariants(argument) for name in invariant.arguments()]
        return tuple(dict.fromkeys(names))

    @cached_property
    def value_symbols(self) -> tuple[str, ...]:
        """Symbols that the value checks read."""
        used = [
            name
            for argument in self.valued
            for invariant in self.value_invariants(argument)
            for name in invariant.symbols()
        ]
        return tuple(dict.fromkeys(used))

    @cached_property
    def payload(self) -> str:
        """The contract as JSON."""
        return json.dumps(
            {
                "function": self.function,
                "arguments": [_argument_data(argument) for argument in self.arguments],
                "returns": [_argument_data(argument) for argument in self.returns],
                "returns_tuple": self.returns_tuple,
            },
            separators=(",", ":"),
        )


def identifier(name: str) -> str:
    """`name` where Python wants an identifier: `return[0]` is none."""
    return name.replace("[", "_").replace("]", "")


def _argument_data(argument: Argument) -> dict[str, Any]:
    data: dict[str, Any] = {"name": argument.name}
    if argument.optional:
        data["optional"] = True
    if argument.tensor:
        data["tensor"] = dataclasses.asdict(argument.tensor)
    if argument.invariants:
        data["invariants"] = [[type(one).__name__, dataclasses.asdict(one)] for one in argument.invariants]  # type: ignore[call-overload]
    if argument.hint:
        data["hint"] = argument.hint
    if argument.number:
        data["number"] = True
    return data


def _argument(data: dict[str, Any]) -> Argument:
    tensor = data.get("tensor")
    if tensor:
        tensor["dtypes"] = None if tensor["dtypes"] is None else tuple(tensor["dtypes"])
    return Argument(
        name=data["name"],
        optional=data.get("optional", False),
        tensor=TensorSpec(**tensor) if tensor else None,
        invariants=tuple(getattr(invariants, kind).rebuild(fields) for kind, fields in data.get("invariants", ())),
        hint=data.get("hint"),
        number=data.get("number", False),
    )


@lru_cache(maxsize=256)
def from_payload(payload: str) -> Spec:
    """The contract that `Spec.payload` wrote."""
    data = json.loads(payload)
    return Spec(
        function=data["function"],
        arguments=tuple(map(_argument, data["arguments"])),
        returns=tuple(map(_argument, data["returns"])),
        returns_tuple=data["returns_tuple"],
    )
