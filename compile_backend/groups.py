"""The boundaries of a mask, computed from the tags that it compares: written into Dynamo's graph."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from shapecheck.compile_backend.emit import CannotLower, SizeNodes, Writer
from shapecheck.compile_backend.expressions import Affine, All, Compare, Formula, Not, Read, Some, Truth, Var
from shapecheck.compile_backend.normalize import Normalized, Path
from shapecheck.compile_backend.obligations import Discharged
from shapecheck.compile_backend.plan import Plan
from shapecheck.compile_backend.reading import shape, tensor
from shapecheck.compile_backend.structure import Structure, Tag
from torch import fx


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Nodes of a Dynamo graph that hold the groups of rows of a mask.

    Attributes:
        path: of the graph.
        cu_q, cu_k: int32 boundaries.
        order_q, order_k: which rows the packed rows are; None where the rows are packed already.
    """

    path: Path
    cu_q: fx.Node
    cu_k: fx.Node
    order_q: fx.Node | None
    order_k: fx.Node | None


def _bounded(discharged: Discharged) -> bool:
    """Whether the number of boundaries follows from the metadata's size."""
    return all(of_q is not None and of_q.limit is not None for of_q, _ in discharged.facts)


def needs_order(found: Structure, discharged: Discharged) -> bool:
    """Whether rows have to be named one by one: where some are left out or do not lie together."""
    return bool(found.valid_q or found.valid_k) or any(of_q is None for of_q, _ in discharged.facts)


class Groups:
    """Writes the computation of boundaries into a graph."""

    def __init__(
        self,
        graph: fx.Graph,
        normalized: Normalized,
        path: Path,
        sizes: SizeNodes,
        device: torch.device,
        plan: Plan,
    ) -> None:
        self._graph = graph
        self._emit = Writer(graph)
        self._normalized = normalized
        self._path = path
        self._sizes = sizes
        self._device = device
        self._plan = plan

    def boundaries(self, found: Structure, discharged: Discharged) -> Boundaries:
        """Boundaries, and orders where rows have to be named."""
        bounded = _bounded(discharged)
        plan = self._plan
        if not needs_order(found, discharged):
            if not found.tags:
                cu_q = self._even(plan.rows_q)
                cu_k = cu_q if plan.rows_q == plan.rows_k else self._even(plan.rows_k)
            elif found.one_stream and plan.rows_q == plan.rows_k:
                groups, count = self._groups(found, discharged, 0, plan.rows_q, bounded)
                cu_q = cu_k = self._count(groups, count)
            else:
                cu_q, cu_k = (
                    self._count(*self._groups(found, discharged, side, rows, bounded))
                    for side, rows in ((0, plan.rows_q), (1, plan.rows_k))
                )
            return Boundaries(self._path, cu_q, cu_k, None, None)
        q_groups, count = self._groups(found, discharged, 0, plan.rows_q, bounded)
        shared = found.one_stream and plan.rows_q == plan.rows_k
        k_groups = q_groups if shared else self._groups(found, discharged, 1, plan.rows_k, bounded)[0]
        cu_q, order_q = self._order(q_groups, count, found.valid_q, plan.rows_q)
        if shared and not found.valid_q and not found.valid_k:
            cu_k, order_k = cu_q, order_q
        else:
            cu_k, order_k = self._order(k_groups, count, found.valid_k, plan.rows_k)
        return Boundaries(self._path, cu_q, cu_k, order_q, order_k)

    def _even(self, rows: sympy.Expr) -> fx.Node:
        """Boundaries of samples of equal length."""
        count = self._arange(self._plus(self._sizes(self._plan.batch), 1))
        return self._emit("to", self._emit(operator.mul, count, self._sizes(rows)), torch.int32)

    def _arange(self, count: Any) -> fx.Node:
        return self._emit(torch.arange, count, device=self._device)

    def _plus(self, one: Any, other: Any) -> Any:
        return one + other if isinstance(one, int) and isinstance(other, int) else self._emit(operator.add, one, other)

    def _times(self, one: Any, other: Any) -> Any:
        if isinstance(one, int) and isinstance(other, int):
            return one * other
        if one == 1:
            return other
        return one if other == 1 else self._emit(operator.mul, one, other)

    def _count(self, groups: fx.Node, count: Any) -> fx.Node:
        """Boundaries of sorted group numbers below `count`: how many are less than 0, 1, ..., `count`."""
        marks = self._arange(self._plus(count, 1))
        return self._emit(torch.searchsorted, groups, marks, out_int32=True)

    def _order(
        self, groups: fx.Node, count: Any, valid: frozenset[Formula], rows: sympy.Expr
    ) -> tuple[fx.Node, fx.Node]:
        """Boundaries and packed rows; rows that are not valid come after the last boundary."""
        emit = self._emit
        for part in sorted(valid, key=repr):
            groups = emit(torch.where, emit("flatten", self._truth(part, rows)), groups, count)
        order = emit(torch.argsort, groups, stable=True)
        return self._count(emit("index_select", groups, 0, order), count), order

    # Group numbers --------------------------------------------------------------------------------------------------

    def _groups(
        self, found: Structure, discharged: Discharged, side: int, rows: sympy.Expr, bounded: bool
    ) -> tuple[fx.Node, Any]:
        """A number for each row of all samples, equal exactly inside a group, and more than the largest of them."""
        emit = self._emit
        batch = self._sizes(self._plan.batch)
        if not found.tags:
            numbers = emit("reshape", self._arange(batch), (-1, 1))
            return emit("flatten", emit("expand", numbers, -1, self._sizes(rows))), batch
        tags = [self._tag(pair[side], rows) for pair in found.tags]
        if bounded and len(tags) == 1:
            known = discharged.facts[0][side]
            assert known is not None
            assert known.limit is not None
            limit = self._sizes(known.limit)
            numbers = emit("to", tags[0], torch.int64)
            if self._plan.batch != 1:
                first = emit("reshape", emit(operator.mul, self._arange(batch), limit), (-1, 1))
                numbers = emit(operator.add, numbers, first)
            return emit("flatten", numbers), self._times(batch, limit)
        total = self._times(batch, self._sizes(rows))
        if all(of_q is not None for of_q, _ in discharged.facts):
            return self._runs(tags), total
        return self._ranked(tags), total

    def _runs(self, tags: list[fx.Node]) -> fx.Node:
        """The number of the run that each row is in, counted through all samples; samples begin new runs."""
        emit = self._emit
        begins: fx.Node | None = None
        for tag in tags:
            changed = emit(
                operator.ne,
                emit(operator.getitem, tag, (slice(None), slice(1, None))),
                emit(operator.getitem, tag, (slice(None), slice(None, -1))),
            )
            begins = changed if begins is None else emit(operator.or_, begins, changed)
        assert begins is not None
        begins = emit(torch.nn.functional.pad, begins, (1, 0), value=True)
        return emit(operator.sub, emit("cumsum", emit("flatten", begins), 0), 1)

    def _ranked(self, tags: list[fx.Node]) -> fx.Node:
        """The rank of each row's group, for tags in any order: rows are sorted by sample, then by their tags."""
        emit = self._emit
        batch = self._sizes(self._plan.batch)
        first = emit("reshape", self._arange(batch), (-1, 1))
        keys = [emit("flatten", tag) for tag in tags]
        keys.append(emit("flatten", emit("expand_as", first, tags[0])))
        order: fx.Node | None = None
        for key in keys:  # the last one counts most
            held = key if order is None else emit("index_select", key, 0, order)
            step = emit(torch.argsort, held, stable=True)
            order = step if order is None else emit("index_select", order, 0, step)
        assert order is not None
        sorted_keys = [emit("unsqueeze", emit("index_select", key, 0, order), 0) for key in keys]
        runs = self._runs(sorted_keys)
        return emit(torch.scatter, runs, 0, order, runs)

    def _tag(self, tag: Tag, rows: sympy.Expr) -> fx.Node:
        """The tag of each row, `[samples, rows]`."""
        return self._spread(tag.node, tag.axes, rows)

    def _spread(self, node: fx.Node, axes: Sequence[str | None], rows: sympy.Expr) -> fx.Node:
        """A tensor with one value for each sample, row, or both, as `[samples, rows]`."""
        emit = self._emit
        held = self._normalized.in_scope(node, self._path)
        assert held is not None
        sizes = dict(zip(axes, shape(node), strict=True))
        kept: list[str | None] = list(axes)
        for axis in range(len(kept) - 1, -1, -1):
            if kept[axis] is None:
                held = emit("select", held, axis, 0)
                kept.pop(axis)
        if kept == ["row", "b"]:
            held, kept = emit("transpose", held, 0, 1), ["b", "row"]
        if "row" in kept and sizes["row"] != rows:
            held = emit("narrow", held, kept.index("row"), 0, self._sizes(rows))
        if kept == ["b"]:
            held = emit("unsqueeze", held, 1)
        return emit("expand", held, self._sizes(self._plan.batch), self._sizes(rows))

    # Conditions on rows ---------------------------------------------------------------------------------------------

    def _truth(self, formula: Formula, rows: sympy.Expr) -> fx.Node:
        """A condition on samples and rows, `[samples, rows]`."""
        emit = self._emit
        match formula:
            case Truth(read):
                held = self._read(read, rows)
                return held if tensor(read.node).dtype is torch.bool else emit(operator.ne, held, 0)
            case Not(inner):
                return emit("logical_not", self._truth(inner, rows))
            case Compare(relation, value):
                compare = {"eq": operator.eq, "ne": operator.ne, "le": operator.le}[relation]
                return emit(compare, *self._sides(value, rows))
            case All(parts) | Some(parts):
                join = operator.and_ if isinstance(formula, All) else operator.or_
                first, *rest = (self._truth(part, rows) for part in sorted(parts, key=repr))
                for one in rest:
                    first = emit(join, first, one)
                return first
            case _:
                raise CannotLower("a condition on rows that cannot be computed again")

    def _sides(self, value: Affine, rows: sympy.Expr) -> tuple[Any, Any]:
        """What to compare instead of `value` with 0: its positive and negative parts, which do not wrap around."""
        more = frozenset((atom, c) for atom, c in value.terms if c > 0)
        less = frozenset((atom, -c) for atom, c in value.terms if c < 0)
        return self._integer(Affine(more, sympy.S.Zero), rows), self._integer(Affine(less, -value.const), rows)

    def _integer(self, value: Affine, rows: sympy.Expr) -> Any:
        emit = self._emit
        total: Any = self._sizes(value.const)
        for atom, coefficient in sorted(value.terms, key=repr):
            match atom:
                case Read():
                    held = self._read(atom, rows)
                    if not tensor(atom.node).dtype.is_floating_point:
                        held = emit("to", held, torch.int64)  # narrow types wrap around
                case Var("i" | "j"):
                    count = self._arange(self._sizes(rows))
                    held = emit("expand", count, self._sizes(self._plan.batch), self._sizes(rows))
                case Var("b"):
                    held = emit("reshape", self._arange(self._sizes(self._plan.batch)), (-1, 1))
                    held = emit("expand", held, -1, self._sizes(rows))
                case _:
                    raise CannotLower("a condition on rows that cannot be computed again")
            held = held if coefficient == 1 else emit(operator.mul, held, coefficient)
            total = held if total == 0 else emit(operator.add, held, total)
        return total

    def _read(self, read: Read, rows: sympy.Expr) -> fx.Node:
        axes: list[str | None] = []
        for one in read.index:
            atom = one.atom
            axes.append(None if not isinstance(atom, Var) else "b" if atom.name == "b" else "row")
        return self._spread(read.node, axes, rows)


def on_host(graph: fx.Graph, before: fx.Node, known: Boundaries) -> Boundaries:
    """Boundaries copied to the host, once for all attentions that share them."""
    with graph.inserting_before(before):
        emit = Writer(graph)
        cu_q = emit("cpu", known.cu_q)
        cu_k = cu_q if known.cu_k is known.cu_q else emit("cpu", known.cu_k)
    return Boundaries(known.path, cu_q, cu_k, known.order_q, known.order_k)
