"""The arguments of calls that take boundaries."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from shapecheck.compile_backend.calls_checks import Row, call_location
from shapecheck.compile_backend.calls_facts import Known, Reader, of_constants
from shapecheck.compile_backend.calls_operators import Operator, is_packed_layout, is_paged, operator_of
from shapecheck.compile_backend.normalize import Normalized
from shapecheck.compile_backend.reading import shape, tensor, value
from torch import Tensor, fx


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        output: the node of the call in the normalized graph.
        operator: what is called.
        given: its arguments by name; those left out have their defaults.
    """

    output: fx.Node
    operator: Operator
    given: Mapping[str, Any]

    def argument(self, *roles: str) -> tuple[str, Any] | None:
        """The argument with one of these roles that was given, with its name; None if there is none."""
        return next(
            (
                (name, held)
                for name, role in self.operator.roles.items()
                if role in roles and (held := self.given.get(name)) is not None
            ),
            None,
        )


def find(normalized: Normalized) -> Iterator[Call]:
    """The calls of a graph that get boundaries, in its order."""
    for node in normalized.graph.nodes:
        operator = operator_of(node.target) if node.op == "call_function" else None
        if operator is None:
            continue
        schema = node.target._schema.arguments
        given = {one.name: one.default_value for one in schema if one.has_default_value()}
        given |= dict(zip((one.name for one in schema), node.args, strict=False))
        call = Call(node, operator, {**given, **node.kwargs})
        packed = all(is_packed_layout(name, held) for name, held in call.given.items())
        if packed and call.argument("bounds", "bounds_q", "bounds_k", "ends_q", "ends_k") is not None:
            yield call


@dataclass(frozen=True, slots=True)
class Side:
    """The boundaries of queries, of keys, or of both.

    Attributes:
        argument: of the operator.
        held: a tensor, or numbers.
        rows: how many rows there are; None if unknown.
        rows_of: the argument that has them.
        ends: whether the 0 in front is left out.
        longest: the argument that bounds the longest segment, and its value; None if there is none.
        known: about the boundaries.
        came: where they come from, in words.
    """

    argument: str
    held: Any
    rows: sympy.Expr | None
    rows_of: str
    ends: bool
    longest: tuple[str, Any] | None
    known: Known
    came: str

    @property
    def count(self) -> sympy.Expr | None:
        """How many boundaries there are."""
        if isinstance(self.held, fx.Node):
            return shape(self.held)[0] if tensor(self.held).dim() == 1 else None
        return sympy.Integer(len(self.held))


def sides_of(call: Call, normalized: Normalized, reader: Reader) -> Iterator[Side]:
    """The boundaries of a call, those of the queries first."""
    paged = any(is_paged(name) and held is not None for name, held in call.given.items())
    for letter in ("q", "k"):
        roles = [f"bounds_{letter}", f"ends_{letter}", *(["bounds"] if letter == "q" else [])]
        given = call.argument(*roles)
        if given is None or (paged and letter == "k"):
            continue
        name, held = given
        if isinstance(held, fx.Node) and not isinstance(value(held), Tensor):
            continue
        rows_of = call.argument(letter) or ("", None)
        rows = _rows(rows_of[1]) if call.operator.described else None
        # Lengths that are used of the keys may be less than those between boundaries.
        longest = None if call.argument(f"lens_{letter}") else call.argument(f"max_{letter}", "max")
        if isinstance(held, fx.Node):
            known = reader.known(held, call.output)
            place = call_location(normalized, held)
            came = f"{known.source} at {place}" if place else known.source
        else:
            known = of_constants(tuple(held)) if all(isinstance(one, int) for one in held) else Known("numbers")
            came = known.source
        ends = call.operator.roles[name].startswith("ends")
        yield Side(name, held, rows, rows_of[0], ends, longest, known, came)


def label_of(group: Sequence[Side]) -> str:
    """The names of arguments that have the same boundaries."""
    return ", ".join(side.argument for side in group)


def row_of(call: Call, side: Side) -> Row | None:
    """What can be checked at run time; None if it cannot."""
    if not isinstance(side.held, fx.Node):
        return None
    held = tensor(side.held)
    if held.dim() != 1 or held.dtype not in (torch.int32, torch.int64):
        return None
    return Row(side.argument, side.held, side.rows, side.rows_of, side.ends, call.operator.exact)


def _rows(held: Any) -> sympy.Expr | None:
    """Rows of `[rows, heads, head dim]`; with other ranks, the axis of the rows depends on the operator."""
    if not isinstance(held, fx.Node) or not isinstance(value(held), Tensor) or tensor(held).dim() != 3:
        return None
    return shape(held)[0]
