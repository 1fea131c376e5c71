"""The scale of an attention, which explicit ones apply by factors anywhere between the scores and the softmax."""

import operator
from dataclasses import dataclass
from typing import Any

from shapecheck.compile_backend.emit import CannotLower, Writer
from shapecheck.compile_backend.normalize import Normalized, Place
from shapecheck.compile_backend.plan import precedes
from shapecheck.compile_backend.sites import Attention, Mask
from torch import fx


@dataclass(frozen=True, slots=True)
class Scale:
    """A product of numbers and of floats that vary, each with the power 1 or -1; None for the default."""

    number: float | None
    floats: tuple[tuple[fx.Node, int], ...] = ()

    def emit(self, emit: Writer) -> Any:
        """The scale as an argument of a call."""
        held: Any = self.number
        for node, power in self.floats:
            held = emit(operator.mul if power > 0 else operator.truediv, held, node)
        return held


def scale_of(attention: Attention, mask: Mask, place: Place, normalized: Normalized) -> Scale:
    """The scale that the scores get in all.

    Raises:
        CannotLower: if it is no number that is at hand.
    """
    if attention.scores is None:
        given = attention.scale
        if given is None:
            return Scale(None)
        if isinstance(given, float) and given in normalized.floats:
            return Scale(1.0, ((_float_here(normalized.floats[given].node, place), 1),))
        if isinstance(given, int | float):
            return Scale(float(given))
        raise CannotLower("the scale is computed in the graph")
    number, floats = 1.0, []
    for factor, power in (*_factor_of_product(attention.scores, normalized), *mask.factors):
        if isinstance(factor, fx.Node):
            floats.append((_float_here(factor, place), power))
        else:
            number = number * factor if power > 0 else number / factor
    return Scale(number, tuple(floats))


def _float_here(node: fx.Node, place: Place) -> fx.Node:
    if not precedes(node, place.node):
        raise CannotLower("the scale is a float of an outer region")
    return node


def _factor_of_product(scores: fx.Node, normalized: Normalized) -> tuple[tuple[float | fx.Node, int], ...]:
    """The factor that a `baddbmm` brings along; what it adds is part of the mask."""
    if "baddbmm" not in str(scores.target):
        return ()
    beta, alpha = scores.kwargs.get("beta", 1), scores.kwargs.get("alpha", 1)
    if beta not in (0, 1) or beta in normalized.floats or not isinstance(alpha, int | float):
        raise CannotLower("baddbmm adds a multiple of a tensor to the scores")
    return ((normalized.floats[alpha].node if alpha in normalized.floats else float(alpha), 1),)
