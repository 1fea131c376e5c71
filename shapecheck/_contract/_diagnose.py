"""Find the first violation of a call and say what it is. Runs only when the generated checks found that there is one,
so it is written for clarity; it is also the second opinion that the tests hold the generated code against."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shapecheck._contract._dims import positions
from shapecheck._contract._plan import Header, Match, MatchRun, Step
from shapecheck._contract._plan import symbols as symbols_of
from shapecheck._contract._spec import Argument, Field, Missing, Spec, TensorSpec
from shapecheck._contract._values import on_host
from shapecheck._invariants import COMPARABLE, Finding, PrefixSum, SameBatch, Scope, is_tensor, shown


@dataclass(frozen=True)
class Stub:
    """What is known of a tensor while a graph is traced: everything but its values."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    strides: tuple[int, ...] | None = None  # None where a tensor has none, as sparse and nested ones


@dataclass(frozen=True)
class Foreign:
    """A value of which only the type's name is at hand."""

    type_name: str


@dataclass(frozen=True)
class Violation:
    """One broken statement. `symbol` is the axis symbol, if it is one, that `expected` is the size of."""

    argument: str
    problem: str
    axis: int | None = None
    expected: Any = None
    actual: Any = None
    bound_by: str | None = None
    notes: tuple[str, ...] = ()
    hint: str | None = None
    symbol: str | None = None


@dataclass
class _Walk:
    """The state of one walk over a plan's steps."""

    spec: Spec
    values: Mapping[str, Any]
    symbols: dict[str, int] = field(default_factory=dict)
    runs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    bound_by: dict[str, tuple[str, int]] = field(default_factory=dict)

    def scope(self) -> Scope:
        return Scope(self.symbols, self.bound_by, self.values)

    def violation(self, argument: Argument, finding: Finding) -> Violation:
        return Violation(
            argument=argument.name,
            problem=f"{argument.name}{finding.problem}",
            axis=finding.axis,
            expected=finding.expected,
            actual=finding.actual,
            bound_by=finding.bound_by,
            notes=finding.notes,
            hint=finding.hint,
            symbol=finding.symbol,
        )


def diagnose(
    spec: Spec,
    values: Mapping[str, Any],
    *,
    read_values: bool = False,
    sync: bool = False,
    symbols: Mapping[str, int] | None = None,
) -> Violation | None:
    """The first violation of `spec` among `values`, or None.

    Args:
        values: arguments (and results) by name: tensors, `Stub`s, `Foreign`s, Python values. An argument that is
            absent is unknown and passes.
        read_values: whether to look at the values of tensors on the host, not only at shapes.
        sync: whether to look at values on accelerators too, by copying them.
        symbols: sizes known already, for a caller that has not all the arguments at hand.
    """
    walk = _Walk(spec, values)
    for name, size in (symbols or {}).items():
        walk.symbols[name] = size
        if (binder := _binder(spec, name)) is not None:
            walk.bound_by[name] = binder
    for owner in spec.owners:
        for one in owner.fields:
            if (found := _field(walk, one)) is not None:
                return found
    for step in spec.plan.arguments:
        if (found := _step(walk, step)) is not None:
            return found
    for argument in spec.arguments:
        if (found := _static_invariants(walk, argument)) is not None:
            return found
    for argument in spec.arguments:
        if spec.guards(argument) and (found := _number(walk, argument)) is not None:
            return found
    if read_values:
        for argument in spec.valued:
            if (found := _value_invariants(walk, argument, sync)) is not None:
                return found
    for step in spec.plan.returns:
        if (found := _step(walk, step)) is not None:
            return found
    return None


def _binder(spec: Spec, symbol: str) -> tuple[str, int] | None:
    for step in spec.plan.arguments:
        if isinstance(step, Match) and symbol in symbols_of(step):
            return step.argument.name, step.axis
    return None


def _field(walk: _Walk, one: Field) -> Violation | None:
    """A field that is missing, or an attribute that is no size; binds the symbol of one that is."""
    if one.argument not in walk.values:
        return None
    value, argument = walk.values[one.argument], walk.spec.by_name[one.argument]
    wanted = argument.tensor.text if argument.tensor else argument.hint
    if value is Missing or (isinstance(value, Foreign) and value.type_name == "type"):
        return Violation(
            argument=one.argument,
            problem=f"{one.argument} is missing or None, expected {wanted}",
            expected=wanted,
            hint="set it where the metadata is built",
        )
    if one.symbol and value is not None:
        if not isinstance(value, int):
            return Violation(
                argument=one.argument,
                problem=f"{one.argument} is {described(value)}, expected an int: an annotation has it as a size",
                expected="int",
                actual=type(value).__name__,
            )
        walk.symbols[one.symbol] = value
    return None


def _step(walk: _Walk, step: Step) -> Violation | None:
    argument = step.argument
    if argument.name not in walk.values:
        return None
    value = walk.values[argument.name]
    if (value is None and argument.optional) or (argument.mixed and not is_tensor_like(value)):
        return None
    assert argument.tensor is not None
    match step:
        case Header():
            return _header(argument, argument.tensor, value)
        case Match():
            return _match(walk, step, value)
        case MatchRun():
            return _match_run(walk, step, value)


def is_tensor_like(value: Any) -> bool:
    """Whether `value` is a tensor or stands for one."""
    return isinstance(value, Stub) or is_tensor(value)


def dtype_name(value: Any) -> str:
    """`float32` for a `torch.float32` tensor."""
    return value.dtype if isinstance(value, Stub) else str(value.dtype).removeprefix("torch.")


def described(value: Any) -> str:
    """`float32[1, 715, 96]`, with the device unless it is the CPU; for what is no tensor, its type and value."""
    if is_tensor_like(value):
        device = str(value.device)
        return f"{dtype_name(value)}{list(value.shape)}" + ("" if device == "cpu" else f" on {device}")
    if isinstance(value, Foreign):
        return _with_article(value.type_name)
    if value is None:
        return "None"
    if isinstance(value, (bool, int, float, str)):
        return f"{shown(value)} ({type(value).__name__})"
    name = type(value).__name__
    if isinstance(value, (list, tuple)) and value:
        members = list(dict.fromkeys(type(one).__name__ for one in value))
        name += f"[{', '.join(members[:3])}{', ...' if len(members) > 3 else ''}]"
    return _with_article(name)


def _with_article(noun: str) -> str:
    return f"{'an' if noun[:1] in 'aeiouAEIOU' else 'a'} {noun}"


def _header(argument: Argument, tensor: TensorSpec, value: Any) -> Violation | None:
    name, is_result = argument.name, argument.name.startswith("return")
    source = f"{name}: {tensor.text}"
    if not is_tensor_like(value):
        return Violation(
            argument=name,
            problem=f"{name} is {described(value)}, expected a torch.Tensor",
            expected="torch.Tensor",
            actual=value.type_name if isinstance(value, Foreign) else type(value).__name__,
            notes=(source,),
            hint=f"annotate it `{tensor.text} | None` if None is fine" if value is None else None,
        )
    shape = tuple(value.shape)
    if tensor.dims is not None:
        axes = tensor.axes
        runs = any(dim.kind == "run" for dim in axes)
        least = len(axes) - runs
        if len(shape) < least if runs else len(shape) != least:
            plural = "axis" if least == 1 else "axes"
            return Violation(
                argument=name,
                problem=f"{name} has {len(shape)} {'axis' if len(shape) == 1 else 'axes'}, "
                f"expected {'at least ' if runs else ''}{least} {plural}",
                expected=least,
                actual=len(shape),
                notes=(f"{name} is {described(value)}", source),
                hint=_rank_hint(axes, shape, is_result),
            )
    if tensor.dtypes is not None and dtype_name(value) not in tensor.dtypes:
        usual = [dtype for dtype in tensor.dtypes if dtype in COMPARABLE] or list(tensor.dtypes)
        allowed = usual[0] if len(tensor.dtypes) == 1 else f"one of {', '.join(usual)}"
        fix = f"cast it where it is made: .to(torch.{usual[0]})" if len(tensor.dtypes) == 1 else None
        return Violation(
            argument=name,
            problem=f"{name} is {dtype_name(value)}, expected {allowed}",
            expected=tensor.dtypes[0] if len(tensor.dtypes) == 1 else tensor.dtypes,
            actual=dtype_name(value),
            notes=(f"{name} is {described(value)}", source),
            hint=fix,
        )
    for axis, dim in positions(tensor.axes):
        if dim.kind == "fixed" and shape[axis] != dim.size and not (dim.broadcast and shape[axis] == 1):
            at = axis if axis >= 0 else len(shape) + axis
            return Violation(
                argument=name,
                problem=f"{name} axis {at} is {shape[axis]}, expected {dim.size}",
                axis=at,
                expected=dim.size,
                actual=shape[axis],
                notes=(f"{name} is {described(value)}", source),
            )
    return None


def _rank_hint(axes: Any, shape: tuple[int, ...], is_result: bool) -> str | None:
    if is_result or not axes:
        return None
    if len(shape) == len(axes) - 1 and axes[0].kind == "fixed" and axes[0].size == 1:
        return "add the leading axis of 1: .unsqueeze(0)"
    if len(shape) == len(axes) + 1 and shape[0] == 1:
        return "drop the leading axis of 1: .squeeze(0)"
    return None


def _match(walk: _Walk, step: Match, value: Any) -> Violation | None:
    name, size = step.argument.name, _size(value.shape[step.axis])
    axis = step.axis if step.axis >= 0 else len(value.shape) + step.axis
    if step.dim.kind == "name":
        symbol = step.dim.name
        if step.dim.broadcast and size == 1:
            return None
        if symbol not in walk.symbols:
            walk.symbols[symbol] = size
            walk.bound_by[symbol] = (name, axis)
            return None
        return _compared(walk, step, axis, size, walk.symbols[symbol], (symbol,))
    expression = step.dim.expression
    unknown = [symbol for symbol in expression.names if symbol not in walk.symbols]
    if not unknown:
        try:
            expected = expression.evaluate(walk.symbols)
        except ZeroDivisionError:
            return None  # S//P with P = 0: nothing can be said
        return _compared(walk, step, axis, size, expected, expression.names)
    if len(unknown) > 1 or not expression.can_solve(unknown[0]):
        return None
    solved = expression.solve(size, walk.symbols)
    if solved is None:
        return Violation(
            argument=name,
            problem=f"{name} axis {axis} is {size}, but no {unknown[0]} >= 0 makes {step.dim.text} equal to that",
            axis=axis,
            expected=step.dim.text,
            actual=size,
            notes=(*map(str, walk.scope().origins(expression.names)), f"{name} is {described(value)}"),
        )
    walk.symbols[unknown[0]] = solved
    walk.bound_by[unknown[0]] = (name, axis)
    return None


def _compared(
    walk: _Walk, step: Match, axis: int, size: int, expected: int, symbols: tuple[str, ...]
) -> Violation | None:
    if size == expected:
        return None
    name = step.argument.name
    notes = []
    for origin in walk.scope().origins(symbols):
        by = origin.argument
        notes.append(f"{origin} ({by} is {described(walk.values[by])})" if by in walk.values else str(origin))
    bound_by = walk.bound_by.get(symbols[0], (None, 0))[0] if symbols else None
    return Violation(
        argument=name,
        problem=f"{name} axis {axis} ({step.dim.text}) is {size}, expected {expected}",
        axis=axis,
        expected=expected,
        actual=size,
        bound_by=bound_by,
        notes=tuple(notes),
        hint=_together(step, bound_by, symbols[0] if symbols else ""),
        symbol=step.dim.name if step.dim.kind == "name" else None,
    )


def _together(step: Match, bound_by: str | None, symbol: str) -> str | None:
    argument = step.argument
    if bound_by is None or bound_by == argument.name or argument.name.startswith("return"):
        return None
    if any(isinstance(one, (PrefixSum, SameBatch)) for one in argument.invariants):
        return f"filter, chunk or pad both sides together: build it and {bound_by} from one list of lengths"
    if argument.tensor is not None and len(argument.tensor.axes) == 1 and step.dim.kind == "name":
        return f"build {argument.name} from the same rows as {bound_by}"
    return f"build {argument.name} and {bound_by} with the same {symbol}"


def _size(size: Any) -> Any:
    """A size as a plain int; a nested tensor's ragged one as it is."""
    try:
        return int(size)
    except (AttributeError, TypeError):
        return size


def _match_run(walk: _Walk, step: MatchRun, value: Any) -> Violation | None:
    name, shape = step.argument.name, tuple(value.shape)
    run = tuple(_size(size) for size in shape[step.front : len(shape) - step.back])
    symbol = f"*{step.dim.name}"
    expected = walk.runs.setdefault(step.dim.name, run)
    if symbol not in walk.bound_by:
        walk.bound_by[symbol] = (name, step.front)
    if run == expected:
        return None
    by = walk.bound_by[symbol][0]
    return Violation(
        argument=name,
        problem=f"{name} axes {symbol} are {list(run)}, expected {list(expected)}",
        axis=step.front,
        expected=expected,
        actual=run,
        bound_by=by,
        notes=(f"{symbol} = {list(expected)} was bound by {by} ({by} is {described(walk.values[by])})",),
    )


def _static_invariants(walk: _Walk, argument: Argument) -> Violation | None:
    value = walk.values.get(argument.name)
    if not is_tensor_like(value):
        return None
    tensors = {name: other for name, other in walk.values.items() if is_tensor_like(other)}
    scope = Scope(walk.symbols, walk.bound_by, tensors)
    for invariant in argument.invariants:
        if (finding := invariant.find_static(value, scope)) is not None:
            return walk.violation(argument, finding)
    return None


def _number(walk: _Walk, argument: Argument) -> Violation | None:
    if argument.name not in walk.values:
        return None
    value = walk.values[argument.name]
    if value is None and argument.optional:
        return None
    if not isinstance(value, (int, float)):
        return Violation(
            argument=argument.name,
            problem=f"{argument.name} is {described(value)}, expected {argument.hint}",
            expected=argument.hint,
            actual=value.type_name if isinstance(value, Foreign) else type(value).__name__,
        )
    for invariant in walk.spec.guards(argument):
        if (finding := invariant.find(value, walk.scope())) is not None:
            return walk.violation(argument, finding)
    return None


def _value_invariants(walk: _Walk, argument: Argument, sync: bool) -> Violation | None:
    value = _on_host(walk, argument.name, sync)
    if value is None:
        return None
    for invariant in walk.spec.value_invariants(argument):
        others = {name: other for name in invariant.arguments() if (other := _on_host(walk, name, sync)) is not None}
        scope = Scope(walk.symbols, walk.bound_by, others)
        sensible = all(map(invariant.looks_at, (value, *others.values())))
        if sensible and (finding := invariant.find(value, scope)) is not None:
            return walk.violation(argument, finding)
    return None


def _on_host(walk: _Walk, name: str, sync: bool) -> Any:
    value = walk.values.get(name)
    return None if isinstance(value, (Stub, Foreign)) else on_host(value, sync)
