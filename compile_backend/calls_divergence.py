"""What becomes of a graph that contradicts itself."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

from shapecheck.compile_backend.report import Contradiction, Report

from shapecheck._errors import ContractError
from shapecheck._levels import Level, resolve_level


def diverging(report: Report, on_divergence: Literal["raise", "warn", "skip"]) -> Callable[..., Any] | None:
    """What to run instead of a graph that contradicts itself: it raises ContractError when it is called.

    An exception raised in a backend would reach the user as Dynamo's `BackendCompilerFailed`.

    Args:
        report: of the graph.
        on_divergence: "raise" as said; "warn" warns now, once for the graph; "skip" does nothing.

    Returns None where the graph is to run: with nothing contradicted, as asked for by `on_divergence`, or at contracts'
    level `off`.
    """
    if not report.contradictions or on_divergence == "skip" or resolve_level(None) is Level.OFF:
        return None
    if on_divergence == "warn":
        warnings.warn(_text(report.contradictions), RuntimeWarning, stacklevel=2)
        return None
    found = tuple(report.contradictions)

    def refuse(*arguments: Any) -> Any:
        raise error(found)

    return refuse


def error(found: Sequence[Contradiction]) -> ContractError:
    """The exception for what was found: the first in its attributes, all of them in the message."""
    first = found[0]
    return ContractError(
        _text(found),
        argument=first.argument,
        axis=0,
        expected=first.expected,
        actual=first.actual,
        bound_by=first.bound_by,
        hint=first.hint,
    )


def _text(found: Sequence[Contradiction]) -> str:
    parts = []
    for one in found:
        where = f"{one.operator} at {one.location}" if one.location else one.operator
        parts.append("\n  ".join([f"{where}: {one.argument} {one.problem}", *one.sources, f"fix: {one.hint}"]))
    return "\n".join(dict.fromkeys(parts))  # layers say the same
