"""Replaces an attention in Dynamo's graph by `shapecheck::varlen_attention`."""

import operator
from collections.abc import Sequence

import sympy  # type: ignore[import-untyped]
import torch
from shapecheck.compile_backend.emit import CannotLower, SizeNodes, Writer
from shapecheck.compile_backend.erase import erase
from shapecheck.compile_backend.expressions import reads_of
from shapecheck.compile_backend.fill import Filler
from shapecheck.compile_backend.groups import Boundaries, Groups, needs_order, on_host
from shapecheck.compile_backend.normalize import Normalized, Path, Place
from shapecheck.compile_backend.obligations import Discharged
from shapecheck.compile_backend.plan import Plan, precedes, sizes_of
from shapecheck.compile_backend.reading import Memory, tensor
from shapecheck.compile_backend.scale import Scale, scale_of
from shapecheck.compile_backend.sites import Attention, Axes, Mask, Operand, candidates
from shapecheck.compile_backend.structure import Structure
from torch import Tensor, fx

from shapecheck._attention._call import Call
from shapecheck._attention.kernels import kernel_for


class Lowering:
    """Rewrites the graphs of one capture. Masks that several attentions share are turned into boundaries once."""

    def __init__(self, normalized: Normalized, memory: Memory) -> None:
        self._normalized = normalized
        self._memory = memory
        self._boundaries: dict[object, Boundaries] = {}
        self._carried: dict[tuple[Path, fx.Node], fx.Node] = {}

    def place_of(self, attention: Attention) -> Place:
        """Where Dynamo's graph computes the result of an attention.

        Raises:
            CannotLower: if it is no node there.
        """
        place = self._normalized.place(attention.output)
        if place is None:
            raise CannotLower("the attention is part of a larger operator")
        return place

    def lower(self, attention: Attention, mask: Mask, found: Structure, discharged: Discharged) -> tuple[str, str]:
        """Rewrite one attention; the name of the kernel that runs it, and that of its boundaries.

        Raises:
            CannotLower: before anything was changed.
        """
        place = self.place_of(attention)
        plan = self._operands(attention, place)
        scale = scale_of(attention, mask, place, self._normalized)
        kernel = self._kernel(attention, found, discharged, plan)
        boundaries = self._bounds(attention, found, discharged, place, plan)
        self._replace(attention, place, plan, boundaries, found, scale, discharged)
        return kernel, boundaries.cu_q.name

    # Operands -------------------------------------------------------------------------------------------------------

    def _operands(self, attention: Attention, place: Place) -> Plan:
        (q, q_node), (k, k_node), (v, v_node) = (
            self._in_scope(attention, operand, place, strip=operand is not attention.q)
            for operand in (attention.q, attention.k, attention.v)
        )
        if k.groups != v.groups:  # then as they are
            (k, k_node), (v, v_node) = (
                self._in_scope(attention, operand, place, strip=False) for operand in (attention.k, attention.v)
            )
        sizes_q, sizes_k, sizes_v = sizes_of(q), sizes_of(k), sizes_of(v)
        one = sympy.S.One
        batch, rows_q, rows_k = sizes_q.get("b", one), sizes_q["s"], sizes_k["s"]
        heads_q, heads_k = sizes_q.get("h", one), sizes_k.get("h", one)
        share = sympy.cancel(heads_q / heads_k) if heads_k != 0 else sympy.S.Zero
        multiple = share >= 1 if share.is_Integer else heads_k == 1 or (attention.grouped and not share.is_number)
        if not multiple or sympy.expand(sizes_v.get("h", one) - heads_k) != 0:
            raise CannotLower(f"{heads_q} query heads are not known to be a multiple of {heads_k} key heads")
        if sympy.expand(sizes_k.get("b", one) - batch) != 0 or sympy.expand(sizes_v.get("b", one) - batch) != 0:
            raise CannotLower("queries, keys and values have different numbers of samples")
        dtypes = {tensor(attention.q.node).dtype, tensor(attention.k.node).dtype, tensor(attention.v.node).dtype}
        if attention.form == "sdpa" and len(dtypes) != 1:
            raise CannotLower("queries, keys and values have different dtypes")
        return Plan(q, k, v, q_node, k_node, v_node, batch, rows_q, rows_k, heads_q, heads_k, sizes_v["d"])

    def _in_scope(self, attention: Attention, operand: Operand, place: Place, strip: bool) -> tuple[Operand, fx.Node]:
        plain: tuple[Operand, fx.Node] | None = None
        for candidate in candidates(operand, self._normalized.opaque, self._memory):
            node = self._normalized.in_scope(candidate.node, place.path)
            if node is None or not precedes(node, place.node):
                continue
            # SDPA reads its own arguments where the lowered attention will; everything else was read before.
            elsewhere = candidate is not operand or attention.form != "sdpa"
            if elsewhere and self._memory.changed(candidate.node):
                continue
            if candidate is not operand and not self._memory.same_region(candidate.node, attention.output):
                continue
            if plain is None and candidate.groups == 1:
                plain = candidate, node
                if not strip:
                    break
            if candidate.groups > 1:
                return candidate, node
        if plain is None:
            raise CannotLower("an operand of the attention is not a tensor of the captured graph")
        return plain

    # The kernel -----------------------------------------------------------------------------------------------------

    def _kernel(self, attention: Attention, found: Structure, discharged: Discharged, plan: Plan) -> str:
        q = tensor(attention.q.node)
        try:
            kernel = kernel_for(q.device.type)
        except NotImplementedError as error:
            raise CannotLower(str(error)) from error
        ordered = needs_order(found, discharged)
        dtype = tensor(attention.output).dtype
        width = sizes_of(attention.q)["d"]
        fixed = all(one.is_Integer for one in (plan.heads_q, width, plan.width_v))
        if not fixed and q.device.type != "cpu":
            raise CannotLower("the number of heads or the head dim varies from call to call")
        heads_q, heads_k, width_q, width_v = (
            int(one) if one.is_Integer else 8 for one in (plan.heads_q, plan.heads_k, width, plan.width_v)
        )
        if not fixed:
            heads_q = heads_k = 8
        heads = q.new_empty((8, heads_q, width_q), dtype=dtype)
        keys = q.new_empty((8, heads_k, width_q), dtype=dtype)
        values = q.new_empty((8, heads_k, width_v), dtype=dtype)
        bounds = q.new_empty((2,), dtype=torch.int32)
        order = q.new_empty((8,), dtype=torch.int64) if ordered else None
        order_k = order if found.one_stream and found.valid_q == found.valid_k else _copy(order)
        window = _kernel_window(found)
        call = Call(bounds, bounds, 8, 8, found.causal, window, 1.0, True, order, order_k)
        refusal = kernel.refuses(heads, keys, values, call)
        if refusal is not None:
            raise CannotLower(refusal)
        return kernel.name

    # Boundaries -----------------------------------------------------------------------------------------------------

    def _bounds(
        self, attention: Attention, found: Structure, discharged: Discharged, place: Place, plan: Plan
    ) -> Boundaries:
        tags = [tag for pair in found.tags for tag in pair]
        nodes = [tag.node for tag in tags] + [
            read.node for part in (*found.valid_q, *found.valid_k) for read in reads_of(part)
        ]
        path = self._common_path(nodes, place)
        device = tensor(attention.q.node).device
        key = (found, path, plan.batch, plan.rows_q, plan.rows_k, device)
        known = self._boundaries.get(key)
        if known is not None and (known.path != place.path or precedes(known.cu_q, place.node)):
            return known
        graph, before = self._point(path, nodes, place)
        there = set(graph.nodes)
        try:
            with graph.inserting_before(before):
                sizes = SizeNodes(graph, before)
                emitter = Groups(graph, self._normalized, path, sizes, device, plan)
                known = emitter.boundaries(found, discharged)
        except Exception:
            for node in reversed(list(graph.nodes)):
                if node not in there:
                    graph.erase_node(node)
            raise
        if device.type not in ("cpu", "cuda"):
            known = on_host(graph, before, known)
        self._boundaries[key] = known
        return known

    def _common_path(self, nodes: Sequence[fx.Node], place: Place) -> Path:
        """The outermost body on the way to `place` in which every node of `nodes` is at hand."""
        for depth in range(len(place.path) + 1):
            path = place.path[:depth]
            if all(self._normalized.in_scope(node, path) is not None for node in nodes):
                break
        else:
            raise CannotLower("the tags of the mask are no tensors of the captured graph")
        if not nodes:
            path = place.path
        return path

    def _point(self, path: Path, nodes: Sequence[fx.Node], place: Place) -> tuple[fx.Graph, fx.Node]:
        """The graph of `path`, and the node before which boundaries can be computed."""
        inner = place.node if path == place.path else place.path[len(path)]
        graph = inner.graph
        if not nodes:
            return graph, inner
        at = max((self._normalized.in_scope(node, path) for node in nodes), key=_position)
        assert at is not None
        if not precedes(at, inner):
            raise CannotLower("the tags of the mask are computed after the attention")
        after = at.next
        while after.op == "placeholder":
            after = after.next
        return graph, after

    def _carry(self, node: fx.Node, path: Path, to: Path) -> fx.Node:
        """`node`, of the body at `path`, as an operand of the bodies down to `to`."""
        for depth in range(len(path), len(to)):
            call = to[depth]
            key = (to[: depth + 1], node)
            if key not in self._carried:
                body = _body(call)
                last = [one for one in body.graph.nodes if one.op == "placeholder"][-1:]
                with body.graph.inserting_after(last[0]) if last else body.graph.inserting_before():
                    operand = body.graph.placeholder(f"shapecheck_{node.name}")
                operand.meta.update(node.meta)
                call.args = (*call.args, node)
                self._carried[key] = operand
                body.recompile()
            node = self._carried[key]
        return node

    # The replacement ------------------------------------------------------------------------------------------------

    def _replace(
        self,
        attention: Attention,
        place: Place,
        plan: Plan,
        boundaries: Boundaries,
        found: Structure,
        scale: Scale,
        discharged: Discharged,
    ) -> None:
        node, graph = place.node, place.node.graph

        def here(one: fx.Node | None) -> fx.Node | None:
            return None if one is None else self._carry(one, boundaries.path, place.path)

        cu_q, cu_k, order_q, order_k = map(
            here, (boundaries.cu_q, boundaries.cu_k, boundaries.order_q, boundaries.order_k)
        )
        with graph.inserting_before(node):
            emit = Writer(graph)
            sizes = SizeNodes(graph, node)
            packed = [
                _packed(emit, source, operand.axes)
                for source, operand in ((plan.q_node, plan.q), (plan.k_node, plan.k), (plan.v_node, plan.v))
            ]
            dtype = tensor(attention.output).dtype
            cast = [
                one if tensor(operand.node).dtype == dtype else emit("to", one, dtype)
                for one, operand in zip(packed, (plan.q, plan.k, plan.v), strict=True)
            ]
            left, right = _kernel_window(found)
            factor = scale.emit(emit)
            result = emit(
                torch.ops.shapecheck.varlen_attention.default,
                *cast,
                cu_q,
                cu_k,
                sizes(plan.rows_q),
                sizes(plan.rows_k),
                found.causal,
                left,
                right,
                factor,
                True,
                order_q,
                order_k,
            )
            out = emit(operator.getitem, result, 0)
            full = tuple(map(sizes, (plan.batch, plan.rows_q, plan.heads_q, plan.width_v)))
            out = emit("reshape", out, full)
            if discharged.fills_mean:
                lse = emit(operator.getitem, result, 1)
                filler = Filler(emit, sizes, plan, *cast)
                out = filler.fill(out, lse, factor, trained=discharged.scores_trained)
            out = _unpacked(emit, out, attention.axes)
            if _contiguous_needed(attention.output, attention.axes):
                out = emit("contiguous", out)
        out.meta.update({key: held for key, held in node.meta.items() if key != "nn_module_stack"})
        node.replace_all_uses_with(out)
        self._normalized.replace(node, out)
        erase(node)


def _copy(order: Tensor | None) -> Tensor | None:
    return None if order is None else order.clone()


def _kernel_window(found: Structure) -> tuple[int, int]:
    return found.left, -1 if found.causal else found.right


def _position(node: fx.Node | None) -> int:
    assert node is not None
    return list(node.graph.nodes).index(node)


def _body(call: fx.Node) -> fx.GraphModule:
    (inner, *_) = call.args
    assert isinstance(inner, fx.Node)
    assert inner.graph.owning_module is not None
    body = getattr(inner.graph.owning_module, str(inner.target))
    assert isinstance(body, fx.GraphModule)
    return body


def _packed(emit: Writer, node: fx.Node, axes: Axes) -> fx.Node:
    """`[rows of all samples, heads, width]` of a tensor with the given axes."""
    for missing in ("h", "b"):
        if missing not in axes:
            node, axes = emit("unsqueeze", node, 0), (missing, *axes)
    wanted = tuple(axes.index(axis) for axis in "bshd")
    if wanted != (0, 1, 2, 3):
        node = emit("permute", node, wanted)
    return emit("flatten", node, 0, 1)


def _unpacked(emit: Writer, node: fx.Node, axes: Axes) -> fx.Node:
    """A tensor with the given axes of one with samples, rows, heads and width."""
    full = tuple(missing for missing in "bh" if missing not in axes) + axes
    wanted = tuple("bshd".index(axis) for axis in full)
    if wanted != (0, 1, 2, 3):
        node = emit("permute", node, wanted)
    for _ in range(4 - len(axes)):
        node = emit("squeeze", node, 0)
    return node


def _contiguous_needed(output: fx.Node, axes: Axes) -> bool:
    """Whether the program may view the result as contiguous, which the packed result in its place is not."""
    held = tensor(output)
    order = [axes.index(axis) for axis in "bshd" if axis in axes]
    return held.is_contiguous() and not held.permute(order).is_contiguous()
