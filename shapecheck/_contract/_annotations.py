"""From a function's signature to its contract. Whatever cannot be understood is refused here, by name: jaxtyping itself
turns an annotation that it cannot resolve into `Any`, and the check into nothing."""

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

import torch
from torch import Tensor

from shapecheck._contract._dims import parse_dims
from shapecheck._contract._hints import checker, is_validator, mentions
from shapecheck._contract._spec import Argument, Spec, TensorSpec
from shapecheck._errors import AnnotationError
from shapecheck._invariants import Invariant, OneOf, SameAsHost

_NUMBERS = (int, float, bool)


@dataclass(frozen=True)
class Reading:
    """What a signature says.

    Attributes:
        spec: the contract.
        hints: hints for beartype, by argument (and `"return"`): all that hold no jaxtyping annotation.
        annotations: the jaxtyping annotation of each tensor argument and result, for the reference engine.
        signature: of the function, for the generated wrapper.
        accept_hints: says whether beartype accepts the values of `hints`, in order, without `"return"`.
        accept_result: says whether it accepts a result.
        passes_on: whether the function is another decorator's wrapper around the one that has the signature.
    """

    spec: Spec
    hints: Mapping[str, Any]
    annotations: Mapping[str, Any]
    signature: inspect.Signature
    accept_hints: Callable[..., bool] | None
    accept_result: Callable[..., bool] | None
    passes_on: bool


def read(function: Callable[..., Any], caller_locals: Mapping[str, Any]) -> Reading:
    """The contract of `function`.

    Args:
        caller_locals: local names where it was decorated, which string annotations may use.

    Raises AnnotationError, naming the function and the argument, for an annotation that cannot be resolved, is
    malformed, or names an axis that nothing binds.
    """
    name = function.__qualname__.replace("<locals>.", "")
    try:
        return _read(function, name, caller_locals)
    except AnnotationError as error:
        raise AnnotationError(f"{name}: {error}") from error.__cause__


def _read(function: Callable[..., Any], name: str, caller_locals: Mapping[str, Any]) -> Reading:
    signature = inspect.signature(function)
    arguments: list[Argument] = []
    hints: dict[str, Any] = {}
    annotations: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.annotation is inspect.Parameter.empty:
            continue
        annotation = _resolved(function, parameter.name, parameter.annotation, caller_locals)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            argument, tensor, hint = _variadic(parameter, annotation)
        else:
            argument, tensor, hint = _argument(parameter.name, annotation, nullable=parameter.default is None)
        if tensor is not None:
            annotations[parameter.name] = tensor
        if hint is not None:
            hints[parameter.name] = hint
        arguments.append(argument)
    returns: tuple[Argument, ...] = ()
    returns_tuple = False
    if signature.return_annotation is not inspect.Signature.empty:
        annotation = _resolved(function, "return", signature.return_annotation, caller_locals)
        returns, returns_tuple, hint = _results(annotation, annotations)
        if hint is not None:
            hints["return"] = hint
    spec = Spec(name, tuple(arguments), returns, returns_tuple)
    _ = spec.plan  # refuses axes that nothing binds
    of_arguments = {name: hint for name, hint in hints.items() if name != "return"}
    of_result = {"return": hints["return"]} if "return" in hints else {}
    return Reading(
        spec,
        hints,
        annotations,
        signature,
        accept_hints=checker(of_arguments) if of_arguments else None,
        accept_result=checker(of_result) if of_result else None,
        passes_on=_passes_on(function, signature),
    )


def _passes_on(function: Callable[..., Any], signature: inspect.Signature) -> bool:
    """Whether `function` passes its arguments on to the function that has `signature`."""
    own = inspect.signature(function, follow_wrapped=False)
    if list(own.parameters.values()) == list(signature.parameters.values()):
        return False
    kinds = {parameter.kind for parameter in own.parameters.values()}
    named = [name for name, one in own.parameters.items() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    if kinds >= {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} and (
        named == list(signature.parameters)[: len(named)]
    ):
        return True
    raise AnnotationError("a decorator below @contract changes the parameters; put @contract below it")


def _variadic(parameter: inspect.Parameter, annotation: Any) -> tuple[Argument, None, Any]:
    """`*args` or `**kwargs`: hints without tensors only."""
    whole: Any = None
    if "Unpack" in str(get_origin(annotation)):
        annotation = get_args(annotation)[0]  # a TypedDict: beartype cannot take it apart here
    elif parameter.kind is parameter.VAR_POSITIONAL:
        whole = tuple[annotation, ...]
    else:
        whole = dict[str, annotation]
    if mentions(annotation, _is_checked):
        raise AnnotationError(f"{parameter.name}: tensors behind `*` cannot be checked; name the arguments")
    return Argument(parameter.name, hint=text(whole or annotation)), None, whole


def _resolved(function: Callable[..., Any], name: str, annotation: Any, caller_locals: Mapping[str, Any]) -> Any:
    """`annotation` with every string in it evaluated."""
    inner = inspect.unwrap(function)
    code, closure = getattr(inner, "__code__", None), getattr(inner, "__closure__", None)
    cells: dict[str, Any] = {}
    for variable, cell in zip(code.co_freevars if code else (), closure or (), strict=True):
        try:
            cells[variable] = cell.cell_contents
        except ValueError:  # not assigned yet: `__class__` in a class body, a function that calls itself
            continue
    holder = types.SimpleNamespace(__annotations__={name: annotation})
    scope = getattr(inner, "__globals__", {})
    # The class around a method does not exist yet: `-> "Model"` can be anything.
    classes = [part for part in inner.__qualname__.split(".")[:-1] if part != "<locals>" and part not in scope]
    names = {**dict.fromkeys(classes, Any), **caller_locals, **cells}
    try:
        return typing.get_type_hints(holder, scope, names, include_extras=True)[name]
    except NameError as error:
        raise AnnotationError(
            f"{name}: {error}, in annotation {annotation!r}; it must be there at run time, not under TYPE_CHECKING only"
        ) from error
    except Exception as error:  # whatever evaluating the user's expression raises
        raise AnnotationError(f"{name}: annotation {annotation!r} cannot be resolved: {error}") from error


def is_jaxtyping(annotation: Any) -> bool:
    """Whether `annotation` is one of jaxtyping's array annotations."""
    return isinstance(annotation, type) and hasattr(annotation, "dim_str") and hasattr(annotation, "dtypes")


def _stripped(annotation: Any) -> tuple[Any, bool, list[Any]]:
    """The annotation without `Annotated` and `Optional`, whether None is fine, and the metadata met on the way."""
    metadata: list[Any] = []
    optional = False
    while True:
        if get_origin(annotation) is typing.Annotated:
            metadata += annotation.__metadata__
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, types.UnionType):
            members = [member for member in get_args(annotation) if member is not types.NoneType]
            if len(members) == len(get_args(annotation)):
                return annotation, optional, metadata
            optional = True
            if len(members) != 1:
                return Union[tuple(members)], optional, metadata  # noqa: UP007  built at run time
            annotation = members[0]
        else:
            return annotation, optional, metadata


def _is_checked(hint: Any) -> bool:
    """Whether `hint` is something that a contract would have to check: a tensor annotation or an invariant."""
    return is_jaxtyping(hint) or isinstance(hint, Invariant)


def _argument(name: str, annotation: Any, *, nullable: bool) -> tuple[Argument, Any, Any]:
    """The argument, its jaxtyping annotation (None without one), and the hint for beartype (None without one)."""
    core, optional, metadata = _stripped(annotation)
    optional = optional or nullable
    for one in metadata:
        if isinstance(one, type) and issubclass(one, Invariant):
            raise AnnotationError(f"{name}: {one.__name__} is a class; write {one.__name__}(...)")
    invariants = tuple(one for one in metadata if isinstance(one, Invariant))
    validators = tuple(one for one in metadata if is_validator(one))
    tensor: TensorSpec | None = None
    hint: Any = None
    if is_jaxtyping(core):
        tensor = _restricted(name, _tensor(name, core), invariants)
        hint = Annotated[(Tensor, *validators)] if validators else None
    elif mentions(core, _is_checked):
        raise AnnotationError(
            f"{name}: {text(core)} holds a tensor annotation or an invariant inside another type, which cannot be "
            "checked; annotate the argument itself, or None beside it"
        )
    elif isinstance(core, type) and issubclass(core, Tensor):
        tensor = _restricted(name, TensorSpec(text(core), None, None), invariants)
        hint = Annotated[(core, *validators)] if validators else None if core is Tensor else core
    else:
        free = core is Any or core is object
        hint = Annotated[(core, *validators)] if validators else None if free else core
    if hint is not None and optional:
        hint = Union[hint, None]  # noqa: UP007  built at run time
    members = get_args(core) if get_origin(core) in (Union, types.UnionType) else (core,)
    number = tensor is None and all(member in _NUMBERS for member in members)
    argument = Argument(name, optional, tensor, invariants, None if tensor else text(core), number)
    for one in invariants:
        # A word is one of several; nothing else can be said of it.
        if (core is str and not isinstance(one, OneOf)) or not one.suits(tensor=tensor is not None, number=number):
            place = "; put it at the tensor, and name the host copy in it" if isinstance(one, SameAsHost) else ""
            raise AnnotationError(f"{name}: {one!r} says nothing about {text(core)}{place}")
    return argument, core if is_jaxtyping(core) else None, hint


def _restricted(name: str, tensor: TensorSpec, invariants: tuple[Invariant, ...]) -> TensorSpec:
    """`tensor` with those dtypes only of which its invariants can be true."""
    dtypes = tensor.dtypes
    for one in invariants:
        possible = one.dtypes()
        if possible is not None:
            dtypes = possible if dtypes is None else tuple(dtype for dtype in dtypes if dtype in possible)
            if not dtypes:
                raise AnnotationError(f"{name}: {one!r} is for {', '.join(possible)}, never true of {tensor.text}")
    return dataclasses.replace(tensor, dtypes=dtypes)


def _tensor(name: str, annotation: Any) -> TensorSpec:
    array_type = annotation.array_type
    if array_type is not Tensor:
        raise AnnotationError(f"{name}: {text(annotation)}: the array type must be torch.Tensor")
    try:
        parse_dims(annotation.dim_str)
    except ValueError as error:
        raise AnnotationError(f"{name}: {text(annotation)}: {error}") from error
    return TensorSpec(text(annotation), annotation.dim_str, _dtypes(name, annotation))


def _dtypes(name: str, annotation: Any) -> tuple[str, ...] | None:
    if not isinstance(annotation.dtypes, (tuple, list)):
        return None  # Shaped: any
    names = [dtype for dtype in annotation.dtypes if isinstance(dtype, str)]
    if len(names) < len(annotation.dtypes):
        raise AnnotationError(f"{name}: {text(annotation)}: dtypes given by pattern cannot be checked")
    known = tuple(dtype for dtype in names if isinstance(getattr(torch, dtype, None), torch.dtype))
    if not known:
        raise AnnotationError(f"{name}: {text(annotation)}: torch has none of the dtypes {', '.join(names)}")
    # The common ones first: the generated check compares in this order.
    common = ("float32", "bfloat16", "float16", "float64", "int64", "int32", "int16", "int8", "uint8")
    return tuple(sorted(known, key=lambda dtype: common.index(dtype) if dtype in common else len(common)))


def _results(annotation: Any, annotations: dict[str, Any]) -> tuple[tuple[Argument, ...], bool, Any]:
    core, optional, metadata = _stripped(annotation)
    if core is typing.NoReturn or core is typing.Never:
        return (), False, None
    if any(isinstance(one, Invariant) for one in metadata):
        raise AnnotationError("return: value invariants are for arguments")
    if get_origin(core) is tuple and mentions(core, _is_checked):
        members = get_args(core)
        if optional or Ellipsis in members:
            raise AnnotationError(f"return: {text(core)} cannot be checked; give a tuple of fixed length")
        results = []
        for i, member in enumerate(members):
            argument, tensor, hint = _argument(f"return[{i}]", member, nullable=False)
            if argument.tensor is None or argument.invariants or hint is not None:
                raise AnnotationError(f"return[{i}]: {text(member)}: every result must be a tensor annotation")
            if tensor is not None:
                annotations[argument.name] = tensor
            results.append(argument)
        return tuple(results), True, None
    argument, tensor, hint = _argument("return", annotation, nullable=False)
    if argument.tensor is None:
        return (), False, hint
    if tensor is not None:
        annotations["return"] = tensor
    return (argument,), False, hint


def text(annotation: Any) -> str:
    """`annotation` as its author wrote it, or nearly so."""
    if is_jaxtyping(annotation):
        return f'{annotation.dtype.__name__}[{annotation.array_type.__name__}, "{annotation.dim_str}"]'
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__name__
    return re.sub(r"\btyping\.", "", str(annotation))
