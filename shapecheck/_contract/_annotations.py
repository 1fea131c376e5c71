"""From a function's signature to its contract. Whatever cannot be understood is refused here, by name: jaxtyping itself
turns an annotation that it cannot resolve into `Any`, and the check into nothing."""

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Union, get_args, get_origin

import torch
from torch import Tensor

from shapecheck._contract._dims import attribute_symbol, parse_dims
from shapecheck._contract._fields import Fields, Member, is_structure, members_of, renamed
from shapecheck._contract._hints import checker, is_validator, mentions
from shapecheck._contract._spec import Argument, Field, Owner, Spec, TensorSpec
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
        bind: functions that return metadata, by its name.
    """

    spec: Spec
    hints: Mapping[str, Any]
    annotations: Mapping[str, Any]
    signature: inspect.Signature
    accept_hints: Callable[..., bool] | None
    accept_result: Callable[..., bool] | None
    passes_on: bool
    bind: Mapping[str, Callable[[], Any]]


def read(
    function: Callable[..., Any],
    caller_locals: Mapping[str, Any],
    bind: Mapping[str, Callable[[], Any]] = MappingProxyType({}),
    *,
    target: Callable[..., Any] | None = None,
) -> Reading:
    """The contract of `function`.

    Args:
        caller_locals: local names where it was decorated, which string annotations may use.
        bind: functions that return metadata, by its name.
        target: the function to be checked, where `function` only has the annotations for it.

    Raises AnnotationError, naming the function and the argument, for an annotation that cannot be resolved, is
    malformed, or names an axis that nothing binds.
    """
    name = function.__qualname__.replace("<locals>.", "")
    try:
        return _read(function, name, caller_locals, bind, target or function)
    except AnnotationError as error:
        raise AnnotationError(f"{name}: {error}") from error.__cause__


def _read(
    function: Callable[..., Any],
    name: str,
    caller_locals: Mapping[str, Any],
    bind: Mapping[str, Callable[[], Any]],
    target: Callable[..., Any],
) -> Reading:
    annotated, signature = inspect.signature(function), inspect.signature(target)
    reader = Reader(caller_locals)
    behind: list[Field] = []  # what the target takes as `**kwargs`
    keywords = next((one for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD), None)
    for parameter in annotated.parameters.values():
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if target is not function and parameter.name not in signature.parameters and not variadic:
            if keywords is None and parameter.default is parameter.empty:
                raise AnnotationError(
                    f"{parameter.name}: {target.__qualname__} has no such parameter; its parameters are "
                    f"{', '.join(signature.parameters)}"
                )
            if keywords is None:
                continue
            behind.append(Field(parameter.name, parameter.name, parameter.default is parameter.empty))
        if parameter.annotation is inspect.Parameter.empty:
            if behind and behind[-1].argument == parameter.name:
                behind.pop()
            continue
        annotation = _resolved(function, parameter.name, parameter.annotation, caller_locals)
        if variadic:
            reader.variadic(parameter, annotation)
        else:
            absent = bool(behind) and behind[-1].argument == parameter.name and not behind[-1].required
            reader.add(parameter.name, annotation, nullable=parameter.default is None or absent)
    if behind and keywords is not None:
        reader.owners.insert(0, Owner(keywords.name, tuple(behind)))
    for bound, getter in bind.items():
        reader.bound(bound, getter, signature)
    reader.attributes(signature)
    returns: tuple[Argument, ...] = ()
    returns_tuple = False
    hints, annotations = reader.hints, reader.annotations
    if annotated.return_annotation is not inspect.Signature.empty:
        annotation = _resolved(function, "return", annotated.return_annotation, caller_locals)
        returns, returns_tuple, hint = _results(annotation, annotations)
        if hint is not None:
            hints["return"] = hint
    reader.attributes(signature, returns)
    spec = Spec(name, tuple(reader.arguments), returns, returns_tuple, tuple(reader.owners))
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
        passes_on=_passes_on(target, signature),
        bind=bind,
    )


class Reader:
    """Collects the arguments of one signature, and those inside them."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = names
        self.arguments: list[Argument] = []
        self.hints: dict[str, Any] = {}  # for beartype
        self.annotations: dict[str, Any] = {}  # jaxtyping's, for the reference engine
        self.owners: list[Owner] = []

    def add(self, name: str, annotation: Any, *, nullable: bool) -> None:
        """One argument, or one field."""
        core, optional, metadata = _stripped(annotation)
        optional = optional or nullable
        given = [one.spec for one in metadata if isinstance(one, Fields)]
        structure = given[0] if given else core if is_structure(core) else None
        members = members_of(name, structure, self.names, _is_checked) if structure is not None else []
        if given and not members:
            raise AnnotationError(f"{name}: no field of {given[0].__name__} has a tensor annotation or an invariant")
        if not members and _is_fixed_tuple(core) and mentions(core, _is_checked):
            members = [Member(i, one, True) for i, one in enumerate(get_args(core))]
        if not members:
            argument, tensor, hint = _argument(name, annotation, nullable=nullable)
            self.put(argument, tensor, hint)
            return
        hint = _hint_of_owner(core, bool(given))
        if hint is not None and optional:
            hint = Union[hint, None]  # noqa: UP007  built at run time
        self.put(Argument(name, optional, hint=text(core)), None, hint)
        self.fields(name, members, optional=optional)

    def put(self, argument: Argument, tensor: Any, hint: Any) -> None:
        if any(argument.name == other.name for other in self.arguments):
            raise AnnotationError(f"{argument.name}: two arguments of this name")
        self.arguments.append(argument)
        if tensor is not None:
            self.annotations[argument.name] = tensor
        if hint is not None:
            self.hints[argument.name] = hint

    def fields(self, owner: str, members: Sequence[Member], *, optional: bool, prefix: str | None = None) -> None:
        """The fields of `owner`, called `owner.key`, or by their keys where `prefix` is "" (`**kwargs`)."""
        start, place = len(self.arguments), len(self.owners)
        found: list[Field] = []
        siblings: dict[str, str] = {}
        for member in members:
            if isinstance(member.key, int):
                called = f"{owner}[{member.key}]"
            else:
                called = f"{owner}.{member.key}" if prefix is None else member.key
                siblings[member.key] = called
            core, nullable, metadata = _stripped(member.annotation)
            if core in (Any, object) and not metadata:
                continue
            required = member.required and not nullable
            self.add(called, member.annotation, nullable=not required or optional)
            found.append(Field(member.key, called, required))
        self.owners.insert(place, Owner(owner, tuple(found), optional))
        for i, argument in enumerate(self.arguments[start:], start):
            if argument.invariants:
                invariants = tuple(renamed(one, siblings) for one in argument.invariants)
                self.arguments[i] = dataclasses.replace(argument, invariants=invariants)

    def variadic(self, parameter: inspect.Parameter, annotation: Any) -> None:
        """`*args` or `**kwargs`: hints without tensors, and the tensors of an unpacked TypedDict."""
        if parameter.kind is parameter.VAR_KEYWORD and "Unpack" in str(get_origin(annotation)):
            structure = get_args(annotation)[0]
            members = members_of(parameter.name, structure, self.names, _is_checked)
            if members:
                self.fields(parameter.name, members, optional=False, prefix="")
                return
        argument, tensor, hint = _variadic(parameter, annotation)
        self.put(argument, tensor, hint)

    def bound(self, name: str, getter: Callable[[], Any], signature: inspect.Signature) -> None:
        """Metadata that a function returns."""
        if name in signature.parameters or not name.isidentifier():
            raise AnnotationError(f"bind={{{name!r}: ...}}: must be a name, and no parameter's")
        returned = inspect.signature(getter).return_annotation
        if returned is inspect.Signature.empty:
            raise AnnotationError(
                f"bind={{{name!r}: ...}}: {getattr(getter, '__name__', getter)} has no return annotation, "
                "which is the specification of the metadata"
            )
        start = len(self.owners)
        self.add(name, _resolved(getter, name, returned, self.names), nullable=False)
        if len(self.owners) == start:
            self.owners.append(Owner(name, (), bound=True))
        else:
            self.owners[start] = dataclasses.replace(self.owners[start], bound=True)

    def attributes(self, signature: inspect.Signature, returns: Sequence[Argument] = ()) -> None:
        """The attributes that axes read: `{self.heads}`."""
        for argument in (*self.arguments, *returns):
            for dim in argument.tensor.axes if argument.tensor else ():
                for path in dim.attributes:
                    self.attribute(argument.name, path, signature)

    def attribute(self, reader: str, path: str, signature: inspect.Signature) -> None:
        root, *keys = path.split(".")
        known = {argument.name for argument in self.arguments}
        if not keys or (root not in signature.parameters and root not in known):
            raise AnnotationError(
                f"{reader}: {{{path}}} must be an attribute of an argument, as {{self.heads}} is; "
                f"the arguments are {', '.join(signature.parameters)}"
            )
        owner = root
        for i, key in enumerate(keys):
            called, last = f"{owner}.{key}", i == len(keys) - 1
            symbol = attribute_symbol(path) if last else ""
            if not any(one.argument == called and one.symbol == symbol for o in self.owners for one in o.fields):
                if called not in known:
                    self.arguments.append(Argument(called, hint="int" if last else "an object"))
                self.owners.append(Owner(owner, (Field(key, called, True, symbol),)))
            owner = called


def _is_fixed_tuple(core: Any) -> bool:
    return get_origin(core) is tuple and Ellipsis not in get_args(core)


def _hint_of_owner(core: Any, given: bool) -> Any:
    """What beartype is asked about an argument whose fields are checked one by one."""
    if core is Any or core is object:
        return None
    if typing.is_typeddict(core):
        return Mapping
    if _is_fixed_tuple(core):
        return tuple[(Any,) * len(get_args(core))]  # type: ignore[misc]
    return core


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
    alternatives = get_args(core) if get_origin(core) in (Union, types.UnionType) else ()
    tensors = [one for one in alternatives if is_jaxtyping(one)]
    mixed = len(tensors) == 1 and not any(one is not tensors[0] and mentions(one, _is_checked) for one in alternatives)
    if mixed:
        members = tuple(Tensor if one is tensors[0] else one for one in alternatives)
        hint = Union[members]  # noqa: UP007  built at run time
        hint = Annotated[(hint, *validators)] if validators else hint
        core = tensors[0]
        tensor = _restricted(name, _tensor(name, core), invariants)
    elif is_jaxtyping(core):
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
    argument = Argument(name, optional, tensor, invariants, None if tensor else text(core), number, mixed)
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
