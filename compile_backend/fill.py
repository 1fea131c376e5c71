"""Queries without keys where masked places hold a finite number: softmax then weighs all keys alike."""

import operator
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from shapecheck.compile_backend.emit import SizeNodes, Writer
from shapecheck.compile_backend.plan import Plan, sizes_of
from shapecheck.compile_backend.reading import tensor
from torch import fx


@dataclass(frozen=True, slots=True)
class Filler:
    """Writes what such queries get: the mean of all values of their sample.

    Attributes:
        emit, sizes: write into the graph.
        plan: of the attention.
        q, k, v: its operands, `[rows of all samples, heads, width]`.
    """

    emit: Writer
    sizes: SizeNodes
    plan: Plan
    q: fx.Node
    k: fx.Node
    v: fx.Node

    def fill(self, out: fx.Node, lse: fx.Node, scale: Any, *, trained: bool) -> fx.Node:
        """`out`, `[samples, rows, heads, width]`, with the rows filled that saw no key.

        Args:
            out: what the lowered attention gave.
            lse: its log-sum-exp, `[heads, rows of all samples]`.
            scale: of the scores; None for the default.
            trained: whether the scores of such rows get gradients.
        """
        emit, plan = self.emit, self.plan
        values = self._by_sample(self.v, plan.rows_k, plan.heads_k, plan.width_v)
        filled = self._for_queries(emit("mean", values, 1, keepdim=True), 2)
        if trained:
            filled = emit(operator.add, filled, self._change(values, scale))
        empty = emit("transpose", emit(operator.eq, lse, float("-inf")), 0, 1)
        empty = self._by_sample(empty, plan.rows_q, plan.heads_q)
        return emit(torch.where, emit("unsqueeze", empty, -1), filled, out)

    def _change(self, values: fx.Node, scale: Any) -> fx.Node:
        """Zeros with the gradients that softmax gives its scores where all its weights are `1 / rows`.

        There `d out = sum_j (d s_j - mean of d s) v_j / rows`, which for `s_j = scale * q k_j` is the change of
        `scale * q sum_j (k_j - mean of k) v_j / rows` with v held fast.
        """
        emit, plan = self.emit, self.plan
        width = sizes_of(plan.q)["d"]
        queries = self._by_sample(self.q, plan.rows_q, plan.heads_q, width)
        keys = self._by_sample(self.k, plan.rows_k, plan.heads_k, width)
        centered = emit(operator.sub, keys, emit("mean", keys, 1, keepdim=True))
        spread = emit(torch.einsum, "bkhd,bkhe->bhde", centered, emit("detach", values))
        spread = self._for_queries(emit(operator.truediv, spread, self.sizes(plan.rows_k)), 1)
        if scale is None:
            scale = float(width) ** -0.5 if width.is_Integer else emit(operator.pow, self.sizes(width), -0.5)
        change = emit(operator.mul, emit(torch.einsum, "bqhd,bhde->bqhe", queries, spread), scale)
        return emit(operator.sub, change, emit("detach", change))

    def _by_sample(self, packed: fx.Node, rows: sympy.Expr, *rest: sympy.Expr) -> fx.Node:
        return self.emit("reshape", packed, tuple(map(self.sizes, (self.plan.batch, rows, *rest))))

    def _for_queries(self, node: fx.Node, axis: int) -> fx.Node:
        """`node`, which has the heads of the keys on `axis`, with those of the queries, or one for all."""
        emit, plan = self.emit, self.plan
        if plan.heads_k in (1, plan.heads_q):
            return node
        heads_q, heads_k = self.sizes(plan.heads_q), self.sizes(plan.heads_k)
        share = emit(operator.floordiv, heads_q, heads_k)
        heads = emit(torch.arange, heads_q, device=tensor(plan.q.node).device)
        return emit("index_select", node, axis, emit(operator.floordiv, heads, share))
