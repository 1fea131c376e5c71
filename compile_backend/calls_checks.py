"""Checks of boundaries at run time: those that contracts put into a graph, and our own where there are none."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import sympy  # type: ignore[import-untyped]
import torch
from shapecheck.compile_backend.calls_facts import whole_number
from shapecheck.compile_backend.emit import CannotLower, SizeNodes, Writer
from shapecheck.compile_backend.normalize import Normalized, Place
from shapecheck.compile_backend.reading import Memory, location, opname, size, tensor
from torch import Tensor, fx

from shapecheck._contract._codegen import device_message
from shapecheck._contract._spec import Argument, Spec, TensorSpec, from_payload
from shapecheck._expressions import limit_value
from shapecheck._invariants import PrefixSum
from shapecheck._levels import Level, resolve_level

START, ORDER, END = "start", "order", "end"


class Covered(NamedTuple):
    """What a contract checks of a row of boundaries: some of `START`, `ORDER` and `END`, and whose contract it is."""

    parts: frozenset[str]
    function: str


NOTHING = Covered(frozenset(), "")


@dataclass(frozen=True, slots=True)
class Row:
    """Boundaries to be checked.

    Attributes:
        argument: of the operator that takes them.
        node: of the normalized graph, a `[n]` int32 or int64 tensor.
        rows: how many rows there are; None if that is not known.
        rows_of: the argument that has them.
        ends: whether they are ends of segments only, without the 0 in front.
        exact: whether the last must equal `rows`, rather than be at most that.
    """

    argument: str
    node: fx.Node
    rows: sympy.Expr | None
    rows_of: str
    ends: bool
    exact: bool

    @property
    def invariant(self) -> PrefixSum:
        """What must hold of them."""
        end = None if self.rows is None else f"rows_of_{self.rows_of}"
        return PrefixSum(None if self.ends else 0, end, "exact" if self.exact else "allow")


class _Point(NamedTuple):
    """Where to check boundaries.

    Attributes:
        graph: of Dynamo.
        before: the node of it before which to check.
        nodes: the boundaries there.
        only_for: the call that the check is for; None where it serves all calls that get the same boundaries.
    """

    graph: fx.Graph
    before: fx.Node
    nodes: list[fx.Node]
    only_for: fx.Node | None


class Checks:
    """The checks of one capture."""

    def __init__(self, normalized: Normalized, memory: Memory) -> None:
        self._normalized = normalized
        self._memory = memory
        self._own: set[object] = set()
        self._contracts = [node for node in normalized.graph.nodes if _is(node, "shapecheck::check_values")]
        self._asserts = [node for node in normalized.graph.nodes if _is(node, "aten::_assert_async")]
        self.inserted = 0

    def by_contract(self, row: Row, call: fx.Node) -> Covered:
        """What contracts in the same graph check of `row` as `call` gets it."""
        if self._memory.changed(row.node, self._memory.position(call)):
            return NOTHING
        for node in self._contracts:
            found = _of_contract(node, row)
            if found.parts and (tensor(row.node).is_cpu or node.args[5]):
                return found
        for node in self._asserts:
            found = _of_assert(node, row)
            if found.parts:
                return found
        return NOTHING

    def insert(self, rows: Sequence[Row], called: str, call: fx.Node) -> str:
        """Put a check of our own into Dynamo's graph, once for all calls that get the same boundaries.

        Returns:
            `""`, or why there can be none.
        """
        level = resolve_level(None)
        host = all(tensor(row.node).is_cpu for row in rows)
        if level < (Level.HOST if host else Level.DEVICE):
            return f"SHAPECHECK={(Level.HOST if host else Level.DEVICE).name.lower()} checks them at run time"
        at = self._point(rows, call)
        if isinstance(at, str):
            return at
        graph, before, nodes, only_for = at
        key = (graph, only_for, *((node, row.rows, row.invariant) for node, row in zip(nodes, rows, strict=True)))
        if key in self._own:
            return ""
        there = set(graph.nodes)
        try:
            with graph.inserting_before(before):
                self._write(graph, before, rows, nodes, called, level)
        except Exception as error:
            for node in reversed(list(graph.nodes)):
                if node not in there:
                    graph.erase_node(node)
            if not isinstance(error, CannotLower):
                raise
            return str(error)
        self._own.add(key)
        self.inserted += 1
        return ""

    def _point(self, rows: Sequence[Row], call: fx.Node) -> "_Point | str":
        """Where to check; or why that cannot be."""
        place = call_place(self._normalized, call)
        overwritten = any(self._memory.changed(row.node) for row in rows)
        for path in [()] if place is None else [place.path] if overwritten else [(), place.path]:
            nodes = [self._normalized.in_scope(row.node, path) for row in rows]
            found = [node for node in nodes if node is not None]
            if len(found) != len(rows):
                continue
            if any("invoke_subgraph" in str(one.target) for one in path):
                return "they are made inside a nested region that several calls share"
            if overwritten:
                if place is None:
                    break
                return _Point(place.node.graph, place.node, found, place.node)
            after = max(found, key=list(found[0].graph.nodes).index).next
            while after.op == "placeholder":
                after = after.next
            return _Point(after.graph, after, found, None)
        return "they are no tensors of the captured graph"

    def _write(
        self,
        graph: fx.Graph,
        before: fx.Node,
        rows: Sequence[Row],
        nodes: Sequence[fx.Node],
        called: str,
        level: Level,
    ) -> None:
        sizes = SizeNodes(graph, before)
        ends = [None if row.rows is None else sizes(row.rows) for row in rows]
        spec = Spec(called, tuple(dict.fromkeys(one for row in rows for one in _arguments(row))))
        write = Writer(graph)
        on_host = [tensor(row.node).is_cpu for row in rows]
        if all(on_host) or level is Level.SYNC:
            of = {row.invariant.end: end for row, end in zip(rows, ends, strict=True)}
            known, counts = [of[name] for name in spec.value_symbols], [-1] * len(rows)
            check = torch.ops.shapecheck.check_values.default
            write(check, list(nodes), [], counts, known, spec.payload, level is Level.SYNC, "raise")
            return
        condition: Any = None
        for row, node, end in zip(rows, nodes, ends, strict=True):
            for part in _conditions(write, row, node, end):
                condition = part if condition is None else write("logical_and", condition, part)
        write(torch._assert_async, condition, device_message(spec))


def call_place(normalized: Normalized, call: fx.Node) -> Place | None:
    """Where Dynamo's graph makes a call: itself, or the operator that holds it."""
    for node in (call, *call.users):
        place = normalized.place(node)
        if place is not None:
            found = place.node
            while (several := _several(found)) is not None:
                found = several
            return Place(place.path, found)
    return None


def call_location(normalized: Normalized, node: fx.Node) -> str:
    """File and line of what computes `node`, `""` for an input or where it is not known."""
    place = call_place(normalized, node)
    return "" if place is None or place.node.op == "placeholder" else location(place.node)


def _several(node: fx.Node) -> fx.Node | None:
    """The operator of which a node of Dynamo's graph picks one of the results; None if it does not."""
    if node.target is not operator.getitem:
        return None
    picked = node.args[0]
    assert isinstance(picked, fx.Node)
    return None if isinstance(picked.meta.get("example_value"), Tensor) else picked


def _arguments(row: Row) -> list[Argument]:
    """What a contract would have: the boundaries, and what has the rows."""
    found = [] if row.rows is None else [_tensor(row.rows_of, f"{row.invariant.end} _ _", None)]
    boundaries = _tensor(row.argument, "_", ("int64", "int32"))
    return [*found, replace(boundaries, invariants=(row.invariant,))]


def _tensor(name: str, dims: str, dtypes: tuple[str, ...] | None) -> Argument:
    return Argument(name, tensor=TensorSpec(f"Shaped[Tensor, '{dims}']", dims, dtypes))


def _conditions(write: Writer, row: Row, node: fx.Node, end: Any) -> list[fx.Node]:
    """What `PrefixSum` asks for, as tensors on the device of the boundaries."""
    wide = write("to", node, torch.int64)
    parts = [write("all", write("ge", write("diff", wide), 0))]
    if not row.ends:
        parts.append(write("eq", write("select", wide, 0, 0), 0))
    if end is not None:
        parts.append(write("eq" if row.exact else "le", write("select", wide, 0, -1), end))
    return parts


def _is(node: fx.Node, name: str) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.name == name


def _of_contract(check: fx.Node, row: Row) -> Covered:
    tensors, _, _, symbols, contract = check.args[:5]
    assert isinstance(contract, str)
    assert isinstance(tensors, list | tuple)
    assert isinstance(symbols, list | tuple)
    spec = from_payload(contract)
    sizes = {name: size(held) for name, held in zip(spec.value_symbols, symbols, strict=True)}
    bound: dict[str, Any] = {name: held for name, held in sizes.items() if held != -1}
    parts: set[str] = set()
    for name, operand in zip(spec.value_operands, tensors, strict=True):
        if operand is not row.node:
            continue
        for invariant in spec.by_name[name].invariants:
            if isinstance(invariant, PrefixSum):
                parts.add(ORDER)
                if invariant.start == 0:
                    parts.add(START)
                if _ends_inside(limit_value(invariant.end, bound), row, invariant.tail == "exact"):
                    parts.add(END)
    return Covered(frozenset(parts), spec.function)


def _ends_inside(limit: Any, row: Row, exact: bool) -> bool:
    if limit is None or row.rows is None:
        return False
    left = sympy.expand(row.rows - limit)
    return bool(left == 0 and exact) if row.exact else bool(left.is_nonnegative)


def _of_assert(check: fx.Node, row: Row) -> Covered:
    """What a contract asserts on an accelerator: its message says which invariants, its condition how many rows."""
    message = check.args[1] if len(check.args) > 1 else ""
    if not isinstance(message, str) or not message.startswith("shapecheck: ") or "PrefixSum(" not in message:
        return NOTHING
    above = _ancestors(check)
    if row.node not in above:
        return NOTHING
    parts = set()
    for node in above:
        name = opname(node)
        if name not in ("ge", "eq", "le") or row.node not in _ancestors(node):
            continue
        other = node.args[1]
        if name == "ge" and isinstance(other, fx.Node) and isinstance(other.meta["val"], Tensor):
            parts.add(ORDER)
        elif name == "eq" and other == 0 and _picks(node.args[0], 0):
            parts.add(START)
        elif _picks(node.args[0], -1) and _ends_inside(whole_number(other), row, name == "eq"):
            parts.add(END)
    return Covered(frozenset(parts), message.split(": ")[1])


def _picks(node: Any, index: int) -> bool:
    while isinstance(node, fx.Node) and opname(node) in ("to", "to_copy"):
        node = node.args[0]
    return isinstance(node, fx.Node) and opname(node) == "select" and bool(node.args[2] == index)


def _ancestors(node: fx.Node) -> set[fx.Node]:
    found: set[fx.Node] = set()
    rest = list(node.all_input_nodes)
    while rest and len(found) < 64:
        one = rest.pop()
        if one not in found:
            found.add(one)
            rest += one.all_input_nodes
    return found
