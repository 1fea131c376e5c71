"""The order in which a contract is checked: symbols are bound before they are used, whatever the order of arguments."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shapecheck._contract._dims import Dim, positions
from shapecheck._errors import AnnotationError

if TYPE_CHECKING:
    from shapecheck._contract._spec import Argument


@dataclass(frozen=True)
class Header:
    """Check that the argument is a tensor with the right number of axes, dtype and fixed sizes."""

    argument: "Argument"


@dataclass(frozen=True)
class Match:
    """Bind or compare one axis (`axis` counts from the front, or from the back where negative: behind a run)."""

    argument: "Argument"
    axis: int
    dim: Dim


@dataclass(frozen=True)
class MatchRun:
    """Bind or compare the run of axes between `front` axes and `back` axes."""

    argument: "Argument"
    front: int
    back: int
    dim: Dim


Step = Header | Match | MatchRun


@dataclass(frozen=True)
class Plan:
    """Steps over the arguments, then over the results.

    Attributes:
        definite: symbols (and runs, as `*name`) that a required argument binds; others may stay unbound in a call.
    """

    arguments: tuple[Step, ...]
    returns: tuple[Step, ...]
    definite: frozenset[str]


def make_plan(arguments: Sequence["Argument"], returns: Sequence["Argument"], constants: Iterable[str] = ()) -> Plan:
    """Order the checks; raises AnnotationError for an axis that nothing can bind, or an invariant that reads one.

    Args:
        constants: symbols whose sizes are known before any argument is looked at.
    """
    known: set[str] = set(constants)
    required = [argument for argument in arguments if not argument.open]
    optional = [argument for argument in arguments if argument.open]
    steps = [*_named(required, known)]
    steps += _solvable(required, known)
    definite = frozenset(known)
    steps += _named(optional, known)
    steps += _solvable(optional, known)
    # Required arguments may use a symbol that only an optional one binds.
    steps += _solvable(required, known, placed=steps)
    steps += _broadcast((*required, *optional), known)
    _refuse_unsolved((*required, *optional), steps, known)
    for argument in arguments:
        _refuse_unknown(argument, known, {other.name for other in arguments})
    results = [*_named(returns, known)]
    results += _solvable(returns, known)
    results += _broadcast(returns, known)
    _refuse_unsolved(returns, results, known)
    results += _again([*steps, *results], definite)
    steps += _again(steps, definite)
    return Plan(tuple(steps), tuple(results), definite)


def _again(steps: Sequence[Step], definite: frozenset[str]) -> list[Step]:
    """Expressions that an absent optional argument may have left open, and that a later step may have settled."""
    repeated: list[Step] = []
    for i, step in enumerate(steps):
        if isinstance(step, Match) and step.dim.kind == "expression":
            open_names = {name for name in step.dim.expression.names if name not in definite}
            if any(open_names & set(symbols(later)) for later in steps[i + 1 :]):
                repeated.append(step)
    return repeated


def symbols(step: Step) -> tuple[str, ...]:
    """The symbols that a step reads or binds, a run's as `*name`."""
    match step:
        case Match(dim=dim):
            return dim.expression.names if dim.kind == "expression" else (dim.name,)
        case MatchRun(dim=dim):
            return (f"*{dim.name}",)
        case _:
            return ()


def _axes(argument: "Argument") -> Sequence[Dim]:
    return argument.tensor.axes if argument.tensor else ()


def _named(arguments: Iterable["Argument"], known: set[str]) -> Iterable[Step]:
    for argument in arguments:
        if argument.tensor is None:
            continue
        yield Header(argument)
        for axis, dim in positions(_axes(argument)):
            if dim.kind == "name" and not dim.broadcast:
                known.add(dim.name)
                yield Match(argument, axis, dim)
        axes = argument.tensor.axes
        for i, dim in enumerate(axes):
            if dim.kind == "run" and dim.name:
                known.add(f"*{dim.name}")
                yield MatchRun(argument, i, len(axes) - i - 1, dim)


def _broadcast(arguments: Iterable["Argument"], known: set[str]) -> list[Step]:
    """`#S` comes last: an axis of 1 says nothing of S."""
    steps: list[Step] = [
        Match(argument, axis, dim)
        for argument in arguments
        for axis, dim in positions(_axes(argument))
        if dim.broadcast and dim.kind == "name"
    ]
    known.update(name for step in steps for name in symbols(step))
    return steps


def _solvable(arguments: Iterable["Argument"], known: set[str], placed: Sequence[Step] = ()) -> list[Step]:
    """Expressions, each once its symbols are known or all but one, which it then binds."""
    waiting = [
        Match(argument, axis, dim)
        for argument in arguments
        for axis, dim in positions(_axes(argument))
        if dim.kind == "expression" and Match(argument, axis, dim) not in placed
    ]
    ordered: list[Step] = []
    progress = True
    while progress:
        progress = False
        for match in list(waiting):
            unknown = [name for name in match.dim.expression.names if name not in known]
            if not unknown or (len(unknown) == 1 and match.dim.expression.can_solve(unknown[0])):
                known.update(unknown)
                ordered.append(match)
                waiting.remove(match)
                progress = True
    return ordered


def _refuse_unsolved(arguments: Iterable["Argument"], steps: Sequence[Step], known: set[str]) -> None:
    for argument in arguments:
        for axis, dim in positions(_axes(argument)):
            if dim.kind == "expression" and Match(argument, axis, dim) not in steps:
                missing = " and ".join(name for name in dim.expression.names if name not in known)
                raise AnnotationError(
                    f"{argument.name}: axis {axis} is {dim.text!r}, but no argument binds {missing}; "
                    f"name {missing} as an axis of some argument"
                )


def _refuse_unknown(argument: "Argument", known: set[str], names: set[str]) -> None:
    for invariant in argument.invariants:
        for symbol in invariant.symbols():
            if symbol not in known:
                raise AnnotationError(
                    f"{argument.name}: {invariant!r} reads {symbol}, but no argument has an axis {symbol}; "
                    f"axes that are bound: {', '.join(sorted(known)) or 'none'}"
                )
        for other in invariant.arguments():
            if other not in names:
                raise AnnotationError(
                    f"{argument.name}: {invariant!r} names {other!r}, which is no annotated argument; "
                    f"annotated are: {', '.join(sorted(names))}"
                )
