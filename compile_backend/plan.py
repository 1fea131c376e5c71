"""The operands of an attention as Dynamo's graph holds them."""

from dataclasses import dataclass

import sympy  # type: ignore[import-untyped]
from shapecheck.compile_backend.reading import shape
from shapecheck.compile_backend.sites import Operand
from torch import fx


@dataclass(frozen=True, slots=True)
class Plan:
    """The operands of one attention in Dynamo's graph, and their sizes."""

    q: Operand
    k: Operand
    v: Operand
    q_node: fx.Node
    k_node: fx.Node
    v_node: fx.Node
    batch: sympy.Expr
    rows_q: sympy.Expr
    rows_k: sympy.Expr
    heads_q: sympy.Expr
    heads_k: sympy.Expr
    width_v: sympy.Expr


def sizes_of(operand: Operand) -> dict[str, sympy.Expr]:
    """The size of each axis."""
    return dict(zip(operand.axes, shape(operand.node), strict=True))


def precedes(one: fx.Node, other: fx.Node) -> bool:
    """Whether `one` is computed before `other`, in the same graph."""
    return one.graph is other.graph and one < other
