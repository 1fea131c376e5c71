"""The reference engine: jaxtyping and beartype themselves, on a normalized signature. The oracle of the tests, and a
second opinion for users. Eager calls only; a compiled region runs the function unchecked."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from beartype import beartype
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import TypeCheckError, jaxtyped
from torch import Tensor

from shapecheck._contract._annotations import Reading
from shapecheck._contract._diagnose import dtype_name
from shapecheck._contract._fields import fetch
from shapecheck._contract._hints import CONFIG
from shapecheck._contract._normalize import UnsolvableError, normalize
from shapecheck._contract._spec import Missing, Spec, identifier
from shapecheck._contract._values import on_host
from shapecheck._errors import ContractError
from shapecheck._invariants import Scope
from shapecheck._levels import Level


def reference_wrapper(function: Callable[..., Any], reading: Reading, level: Level) -> Callable[..., Any]:
    """`function`, checked by jaxtyping and beartype at every eager call. Raises ContractError with their text."""
    checks: dict[Any, Callable[..., None]] = {}  # by what they check: decorating costs beartype milliseconds

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = reading.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = _with_fields(reading, bound.arguments)
        _check(reading, values, level, checks)
        return values

    def after(values: dict[str, Any], result: Any) -> Any:
        if "return" in reading.hints or reading.spec.returns:
            _check(reading, {**values, **_results(reading.spec, result)}, level, checks)
        return result

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        return after(before(args, kwargs), function(*args, **kwargs))

    @functools.wraps(function)
    async def checked_async(*args: Any, **kwargs: Any) -> Any:
        return after(before(args, kwargs), await function(*args, **kwargs))

    return checked_async if inspect.iscoroutinefunction(function) else checked


def _with_fields(reading: Reading, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, and the fields of those that have some."""
    values = dict(arguments)
    for owner in reading.spec.owners:
        if owner.bound:
            values[owner.name] = reading.bind[owner.name]()
        absent = values.get(owner.name) is None and owner.optional
        for one in owner.fields:
            value = None if absent else fetch(values[owner.name], one.key, one.required)
            if value is Missing:
                raise ContractError(f"{reading.spec.function}: {one.argument} is missing", argument=one.argument)
            values[one.argument] = value
    return values


def _results(spec: Spec, result: Any) -> dict[str, Any]:
    if not spec.returns_tuple:
        return {"return": result}
    if not isinstance(result, tuple) or len(result) != len(spec.returns):
        raise ContractError(f"{spec.function}: return is no tuple of {len(spec.returns)}", argument="return")
    return {argument.name: value for argument, value in zip(spec.returns, result, strict=True)}


def _check(reading: Reading, values: Mapping[str, Any], level: Level, checks: dict[Any, Callable[..., None]]) -> None:
    spec = reading.spec
    here = {
        name: annotation
        for name, annotation in reading.annotations.items()
        if name in values
        and not (values[name] is None and spec.by_name[name].optional)
        and not (spec.by_name[name].mixed and not isinstance(values[name], Tensor))
    }
    try:
        constants = {symbol: values[name] for symbol, name in spec.constants.items()}
        normalized = normalize(here, values, constants)
    except UnsolvableError as error:
        raise ContractError(f"{spec.function}: {error}") from error
    parameters = dict(normalized.annotations)
    arguments = dict(normalized.values)
    hints = {name: hint for name, hint in reading.hints.items() if name in values}
    for argument in (*spec.arguments, *spec.returns):
        if argument.tensor is not None and argument.tensor.dims is None and argument.name in values:
            hints.setdefault(argument.name, Tensor | None if argument.optional else Tensor)
    for name, hint in hints.items():
        parameter = f"hint_{identifier(name)}"
        parameters[parameter], arguments[parameter] = hint, values[name]
    key = (normalized.key, tuple(hints))
    if key not in checks:
        namespace: dict[str, Any] = {}
        exec(f"def check({', '.join(parameters)}): pass", namespace)
        namespace["check"].__annotations__ = parameters
        checks[key] = jaxtyped(typechecker=beartype(conf=CONFIG))(namespace["check"])
    try:
        checks[key](**arguments)
    except (TypeCheckError, BeartypeCallHintViolation) as error:
        raise ContractError(f"{spec.function}: {error}") from error
    _check_invariants(spec, values, normalized.sizes, level)


def _check_invariants(spec: Spec, values: Mapping[str, Any], symbols: Mapping[str, int], level: Level) -> None:
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    for argument in spec.arguments:
        value = values.get(argument.name)
        if value is None:
            continue
        for invariant in argument.invariants:
            static = Scope(symbols, {}, tensors)
            possible = invariant.dtypes()
            broken = isinstance(value, Tensor) and (
                invariant.find_static(value, static) is not None
                or (possible is not None and dtype_name(value) not in possible)
            )
            guard = invariant in spec.guards(argument)
            if not broken and (guard or (level >= Level.HOST and invariant in spec.value_invariants(argument))):
                plain = _plain(value, level)
                others = {name: _plain(values.get(name), level) for name in invariant.arguments()}
                scope = Scope(symbols, {}, {name: other for name, other in others.items() if other is not None})
                broken = plain is not None and invariant.looks_at(plain) and not invariant.holds(plain, scope)
            if broken:
                raise ContractError(f"{spec.function}: {argument.name} breaks {invariant!r}", argument=argument.name)


def _plain(value: Any, level: Level) -> list[Any] | None:
    plain = on_host(value, level is Level.SYNC)
    if isinstance(plain, Tensor):
        return plain.flatten().tolist()
    if plain is None:
        return None
    return list(plain) if isinstance(plain, (list, tuple)) else [plain]
