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


class Missing:
    """Stands for a field that metadata does not have. Never instantiated."""


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
        mixed: whether what is no tensor is fine too, as far as the hint goes: `Float[Tensor, "S C"] | str`.
    """

    name: str
    optional: bool = False
    tensor: TensorSpec | None = None
    invariants: tuple[Invariant, ...] = ()
    hint: str | None = None
    number: bool = False
    mixed: bool = False

    @property
    def open(self) -> bool:
        """Whether a call need not bring a tensor here."""
        return self.optional or self.mixed


@dataclass(frozen=True)
class Field:
    """One thing that is read from an argument before the checks.

    Attributes:
        key: the key, the attribute's name, or the index.
        argument: name of the argument that it becomes, as in messages.
        required: whether it must be there and not None.
        symbol: the axis symbol whose size it is, for `{self.heads}` in an annotation; "" for none.
    """

    key: str | int
    argument: str
    required: bool
    symbol: str = ""


@dataclass(frozen=True)
class Owner:
    """An argument whose fields are arguments of their own.

    Attributes:
        name: of the argument; of the metadata, where `bound`.
        fields: what is read from it.
        optional: whether it may be None, and then has no fields.
        bound: whether it is no argument but comes from a function.
    """

    name: str
    fields: tuple[Field, ...]
    optional: bool = False
    bound: bool = False


@dataclass(frozen=True)
class Spec:
    """One contract.

    Attributes:
        function: qualified name, for messages.
        arguments: annotated arguments in signature order.
        returns: the results that are checked, `()` for none.
        returns_tuple: whether the function returns a tuple of them.
        owners: the arguments that have fields, each before those that are its fields.
    """

    function: str
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...] = ()
    returns_tuple: bool = False
    owners: tuple[Owner, ...] = ()

    @cached_property
    def plan(self) -> Plan:
        return make_plan(self.arguments, self.returns, self.constants)

    @cached_property
    def constants(self) -> dict[str, str]:
        """The axis symbols that are attributes, with the arguments that hold their sizes."""
        return {one.symbol: one.argument for owner in self.owners for one in owner.fields if one.symbol}

    @cached_property
    def by_name(self) -> dict[str, Argument]:
        return {argument.name: argument for argument in (*self.arguments, *self.returns)}

    @cached_property
    def valued(self) -> tuple[Argument, ...]:
        """Tensors and sequences whose values are checked, and numbers that are held against them."""
        return tuple(one for one in self.arguments if self.value_invariants(one))

    def guards(self, argument: Argument) -> tuple[Invariant, ...]:
        """The invariants of a Python number that need nothing else: they become guards."""
        return tuple(one for one in argument.invariants if not one.arguments()) if argument.number else ()

    def value_invariants(self, argument: Argument) -> tuple[Invariant, ...]:
        """The invariants that have to look at values: also those over shapes, where one side is no tensor. `guards` are
        not among them."""
        return self._value_invariants[argument.name]

    @cached_property
    def _value_invariants(self) -> dict[str, tuple[Invariant, ...]]:
        return {
            argument.name: tuple(
                one
                for one in argument.invariants
                if one not in self.guards(argument)
                and (
                    one.reads_values()
                    or argument.tensor is None
                    or any(self.by_name[name].tensor is None for name in one.arguments())
                )
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
                **({"owners": [dataclasses.asdict(owner) for owner in self.owners]} if self.owners else {}),
            },
            separators=(",", ":"),
        )


def identifier(name: str) -> str:
    """`name` where Python wants an identifier: `return[0]` and `meta.cu_seqlens` are none."""
    return name.replace("[", "_").replace("]", "").replace(".", "_")


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
    if argument.mixed:
        data["mixed"] = True
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
        mixed=data.get("mixed", False),
    )


def _owner(data: dict[str, Any]) -> Owner:
    return Owner(**{**data, "fields": tuple(Field(**one) for one in data["fields"])})


@lru_cache(maxsize=256)
def from_payload(payload: str) -> Spec:
    """The contract that `Spec.payload` wrote."""
    data = json.loads(payload)
    return Spec(
        function=data["function"],
        arguments=tuple(map(_argument, data["arguments"])),
        returns=tuple(map(_argument, data["returns"])),
        returns_tuple=data["returns_tuple"],
        owners=tuple(map(_owner, data.get("owners", ()))),
    )
