"""`@contract`: the decorator."""

import functools
import inspect
import itertools
import linecache
import sys
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, cast, overload

import torch
from torch import Tensor

from shapecheck._contract._annotations import Reading, read, text
from shapecheck._contract._codegen import default_key, dtypes_key, generate, getter_key
from shapecheck._contract._diagnose import Violation, described, diagnose
from shapecheck._contract._hints import accepts_one
from shapecheck._contract._message import error
from shapecheck._contract._preset import Preset
from shapecheck._contract._reaction import contracts
from shapecheck._contract._spec import Argument, Missing
from shapecheck._contract._verified import Verified
from shapecheck._contract._violation import (
    WentOn,
    accelerated,
    assert_on_device,
    check_values,
    fetch,
    violated,
)
from shapecheck._errors import ContractError
from shapecheck._levels import Level, resolve_level
from shapecheck._settings import Reaction, configured_level, level_in_force, parse_reaction

F = TypeVar("F", bound=Callable[..., Any])

_numbers = itertools.count(1)


class Contract:
    """The contract of one function, as the decorated function's `__contract__`.

    Attributes:
        spec: the contract as data.
        level: what is checked here and now.
        reaction: the reaction given to `contract`, or None.
        verified: the value checks that need no repetition.
        number: what operators in compiled graphs know it by.
        source: the generated code, for reading.
        payload: the contract as the string that operators in compiled graphs carry.
        result_dtypes: for each result, the dtypes its annotation allows; empty for any.
        returns_tuple: whether the function returns several results.
    """

    def __init__(self, reading: Reading, level: Level, source: str, *, fixed: bool, reaction: Reaction | None) -> None:
        self.spec = reading.spec
        self._level, self._fixed = level, fixed
        self.reaction = reaction
        self.number = next(_numbers)
        self.verified = Verified()
        contracts[self.number] = self
        self.source = source
        self.payload = reading.spec.payload
        self.returns_tuple = reading.spec.returns_tuple
        self.result_dtypes = [torch_dtypes(argument) for argument in reading.spec.returns]
        self._hints = dict(reading.hints)

    @property
    def level(self) -> Level:
        return self._level if self._fixed else Level(level_in_force(self._level))

    def __repr__(self) -> str:
        return f"<contract of {self.spec.function} at level {self.level.name.lower()}>"

    def error(self, values: Sequence[Any]) -> ContractError:
        """The error for a call that the checks refused: annotated arguments in order, then the results."""
        arguments = [*self.spec.arguments, *self.spec.returns]
        named = {argument.name: value for argument, value in zip(arguments, values, strict=False)}
        extra = values[len(self.spec.arguments) :]
        if extra and self.returns_tuple and (len(extra) != len(self.spec.returns) or isinstance(extra[0], tuple)):
            named.pop(self.spec.returns[0].name, None)  # it is the result as a whole
        reads = self.level >= Level.HOST
        owners = {owner.name: named[owner.name] for owner in self.spec.owners if owner.name in named}
        violation = self._hint_violation(owners)
        violation = violation or diagnose(self.spec, named, read_values=reads, sync=self.level is Level.SYNC)
        violation = violation or self._hint_violation(named) or self._result_violation(extra)
        return error(self.spec, violation, named)

    def _hint_violation(self, values: Mapping[str, Any]) -> Violation | None:
        for name, hint in self._hints.items():
            if name in values and not accepts_one(values[name], hint):
                argument = self.spec.by_name[name]
                validators = [repr(one) for one in getattr(hint, "__metadata__", ())]
                wanted = argument.hint or " with ".join([str(argument.tensor and argument.tensor.text), *validators])
                return _not_accepted(name, values[name], wanted)
        return None

    def _result_violation(self, results: Sequence[Any]) -> Violation | None:
        if not results:
            return None
        if self.returns_tuple:
            count = len(self.spec.returns)
            what = f"a tuple of {len(results[0])}" if isinstance(results[0], tuple) else described(results[0])
            problem = f"return is {what}, expected a tuple of {count}"
            return Violation(argument="return", problem=problem, expected=count, actual=what)
        return _not_accepted("return", results[0], text(self._hints.get("return")))


def _not_accepted(name: str, value: Any, hint: str) -> Violation:
    return Violation(
        argument=name,
        problem=f"{name} is {described(value)}, expected {hint}",
        expected=hint,
        actual=type(value).__name__,
    )


@overload
def contract(function: F, /) -> F: ...
@overload
def contract(
    preset: Preset | None = None,
    /,
    *,
    level: Literal["off", "shape", "host", "device", "sync"] | None = None,
    on_violation: Reaction | None = None,
    bind: Mapping[str, Callable[[], Any]] | None = None,
    engine: Literal["generated", "reference"] = "generated",
) -> Callable[[F], F]: ...
def contract(
    function: Any = None,
    /,
    *,
    level: Literal["off", "shape", "host", "device", "sync"] | None = None,
    on_violation: Reaction | None = None,
    bind: Mapping[str, Callable[[], Any]] | None = None,
    engine: Literal["generated", "reference"] = "generated",
) -> Any:
    """Enforce the annotations of a function's signature at every call, eager or compiled.

    Tensors are annotated with jaxtyping (`Float[Tensor, "1 S C"]`), values with the invariants of this package inside
    `Annotated`. Every axis of one name has one size, whatever the order of the arguments; an expression such as `B+1`
    binds `B` where nothing else does, `{self.heads}` reads an attribute. An argument whose type is a TypedDict,
    dataclass or NamedTuple of such annotations, or that has `Fields(...)`, is checked field by field; in messages a
    field is `meta.cu_seqlens`. Hints that hold no tensor are enforced by beartype, in eager calls.

    Args:
        function: a function, method, `nn.Module.forward`, coroutine function, staticmethod or classmethod; or a
            `Preset`, which brings the annotations for a function that has none: `contract(preset)(Model.forward)`.
        level: `"off"`, `"shape"`, `"host"`, `"device"` or `"sync"`; see `Level`. None: what `configure` says at the
            call, else the environment variable `SHAPECHECK` when the function is decorated, else `"host"`.
        on_violation: `"raise"`, `"warn"` (a `ContractWarning`, at most one a minute for each calling line), or a
            function that is given the `ContractError`; the call then goes on. In a compiled region a violation of
            shapes is reported when the graph is captured. None: what `configure` says, else `"raise"`.
        bind: metadata that is no argument: names, and functions without arguments that return it, as a forward
            context does. The function's return annotation is the specification.
        engine: `"generated"` checks; `"reference"` runs jaxtyping and beartype themselves, in eager calls only and many
            times slower: a second opinion.

    Returns the function with its checks, whose `__contract__.source` is the generated code; the function itself at
    level `"off"`.

    Raises AnnotationError when decorating, for annotations that cannot be enforced, and for a preset that does not fit.
    The decorated function raises ContractError.
    """
    if engine not in ("generated", "reference"):
        raise ValueError(f"engine={engine!r}: expected one of generated, reference")
    options = _Options(
        resolve_level(level) if level is not None else configured_level() or resolve_level(None),
        level is not None,
        None if on_violation is None else parse_reaction(on_violation),
        dict(bind or {}),
        engine,
        function if isinstance(function, Preset) else None,
    )
    if function is None or isinstance(function, Preset):
        # A decorator with arguments is applied one frame further down.
        return lambda function: _decorate(function, options, sys._getframe(1))
    return _decorate(function, options, sys._getframe(1))


class _Options(NamedTuple):
    """What `contract` was called with. `fixed`: whether the level is its own."""

    level: Level
    fixed: bool
    reaction: Reaction | None
    bind: Mapping[str, Callable[[], Any]]
    engine: str
    preset: Preset | None


def _visible_names(frame: types.FrameType | None) -> dict[str, Any]:
    """Local names where the decorator stands: of the function, and of class bodies inside it."""
    names: dict[str, Any] = {}
    while frame is not None and frame.f_code.co_name != "<module>":
        names = {**frame.f_locals, **names}
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            break
        frame = frame.f_back
    return names


def _decorate(function: Any, options: _Options, caller: types.FrameType) -> Any:
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(_decorate(function.__func__, options, caller))
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        what = "a class" if isinstance(function, type) else f"{type(function).__name__} objects"
        raise TypeError(f"@contract decorates functions and methods, not {what}; decorate its forward method")
    if options.level is Level.OFF and (options.fixed or configured_level() is None):
        return function
    # A function of another module is decorated from outside: the names here are not those that its author saw.
    at_home = getattr(inspect.unwrap(function), "__globals__", None) is caller.f_globals
    names = _visible_names(caller) if at_home else {}
    if options.preset is not None:
        reading = read(options.preset.function, {}, options.bind, target=function)
    else:
        reading = read(function, names, options.bind)
    if options.engine == "reference":
        from shapecheck._contract._reference import reference_wrapper  # loads jaxtyping

        return reference_wrapper(function, reading, options.level)
    return _generated_wrapper(function, reading, options)


def _generated_wrapper(function: Callable[..., Any], reading: Reading, options: _Options) -> Callable[..., Any]:
    spec, signature, level = reading.spec, reading.signature, options.level
    is_async = inspect.iscoroutinefunction(function)
    source, code_names = generate(
        spec,
        signature,
        level,
        list(reading.hints),
        fixed=options.fixed,
        is_async=is_async,
        passes_on=reading.passes_on,
    )
    made = Contract(reading, level, source, fixed=options.fixed, reaction=options.reaction)
    globals_: dict[str, Any] = {
        "Tensor": Tensor,
        "accelerated": accelerated,
        "assert_on_device": assert_on_device,
        "check_values": check_values,
        "contract": made,
        "fetch": fetch,
        "float": float,
        "function": function,
        "int": int,
        "is_compiling": torch.compiler.is_compiling,
        "isinstance": isinstance,
        "len": len,
        "level_in_force": level_in_force,
        "missing": Missing,
        "tuple": tuple,
        "violated": violated,
        "went_on": WentOn,
    }
    if accept := reading.accept_hints:
        globals_["accept_hints"] = accept
    if accept := reading.accept_result:
        globals_["accept_result"] = accept
    for name, getter in options.bind.items():
        globals_[getter_key(name)] = getter
    for argument in spec.by_name.values():
        dtypes = torch_dtypes(argument)
        if dtypes:
            globals_[dtypes_key(argument)] = dtypes[0] if len(dtypes) == 1 else dtypes
    for parameter in signature.parameters.values():
        if parameter.default is not parameter.empty:
            globals_[default_key(parameter.name)] = parameter.default
    names = {code_names[key]: value for key, value in globals_.items()}
    filename = f"<shapecheck contract {made.number} of {spec.function}>"
    exec(compile(source, filename, "exec"), names)
    # So that tracebacks, debuggers and inspect show the generated lines, as long as there is something to show.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    weakref.finalize(made, linecache.cache.pop, filename, None)
    wrapper = functools.wraps(function)(names[code_names["checked"]])
    wrapper.__contract__ = made  # type: ignore[attr-defined]
    return cast("Callable[..., Any]", wrapper)


def torch_dtypes(argument: Argument) -> tuple[torch.dtype, ...]:
    """The dtypes that `argument`'s annotation allows; empty for any."""
    names = argument.tensor.dtypes if argument.tensor else None
    return tuple(getattr(torch, name) for name in names or ())
