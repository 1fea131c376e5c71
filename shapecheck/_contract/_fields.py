"""Metadata: arguments that hold tensors, and the reading of their fields."""

import dataclasses
import inspect
import sys
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args, get_origin, is_typeddict

from shapecheck._contract._hints import mentions
from shapecheck._contract._spec import Missing
from shapecheck._errors import AnnotationError
from shapecheck._invariants import Invariant


@dataclass(frozen=True)
class Fields:
    """What a metadata object holds that one does not own: `Annotated[Any, Fields(AttentionSpec)]`.

    Args:
        spec: a TypedDict, dataclass, NamedTuple or plain class whose annotations are the specification. The object is
            read by key where it is a mapping, else by attribute; what it has besides is ignored. A field that is
            `NotRequired`, optional, or has a default in `spec` may be absent.
    """

    spec: type


class Member(NamedTuple):
    """One field of a structure."""

    key: str | int
    annotation: Any
    required: bool


def is_structure(annotation: Any) -> bool:
    """Whether `annotation` is a class whose fields have annotations: TypedDict, dataclass, NamedTuple."""
    return (
        is_typeddict(annotation)
        or (isinstance(annotation, type) and dataclasses.is_dataclass(annotation))
        or (isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_fields"))
    )


def members_of(name: str, structure: type, names: Mapping[str, Any], is_checked: Any) -> list[Member]:
    """The fields of `structure` in order; raises AnnotationError, naming the field, for one that cannot be resolved.

    Args:
        names: local names that string annotations may use.
        is_checked: what makes a field worth looking at. A class of which no field is gives none, resolvable or not.
    """
    members: list[Member] = []
    unresolved: list[AnnotationError] = []
    for owner, key, annotation in _annotations(structure):
        scope = vars(sys.modules.get(owner.__module__, typing))
        holder = type("holder", (), {"__annotations__": {key: annotation}})
        try:
            resolved = typing.get_type_hints(holder, scope, dict(names), include_extras=True)[key]
        except Exception as error:  # whatever evaluating somebody's expression raises
            problem = f"{name}.{key}: annotation {annotation!r} of {structure.__name__} cannot be resolved: {error}"
            unresolved.append(AnnotationError(problem))
            continue
        hint, required = _presence(resolved)
        members.append(Member(key, hint, required and _has_no_default(structure, key)))
    if not any(mentions(member.annotation, is_checked) or is_structure(member.annotation) for member in members):
        return []
    if unresolved:
        raise unresolved[0]
    return members


def _annotations(structure: type) -> Iterator[tuple[type, str, Any]]:
    """Every field once, with the class that declares it."""
    declared: dict[str, tuple[type, Any]] = {}
    if is_typeddict(structure):  # a TypedDict forgets its bases, and merges their annotations
        declared = {key: (structure, one) for key, one in inspect.get_annotations(structure).items()}
    else:
        for base in reversed(structure.__mro__):
            declared.update({key: (base, one) for key, one in inspect.get_annotations(base).items()})
    for key, (owner, annotation) in declared.items():
        if get_origin(annotation) is not typing.ClassVar:
            yield owner, key, annotation


def _presence(annotation: Any) -> tuple[Any, bool]:
    """The annotation without `Required` and its kin, and whether the field has to be there."""
    required = True
    while get_origin(annotation) in (typing.Required, typing.NotRequired):
        required = get_origin(annotation) is typing.Required
        annotation = get_args(annotation)[0]
    return annotation, required


def _has_no_default(structure: type, key: str) -> bool:
    if is_typeddict(structure):
        required: frozenset[str] = structure.__required_keys__  # type: ignore[attr-defined]
        return key in required
    if dataclasses.is_dataclass(structure):
        field = structure.__dataclass_fields__.get(key)
        return field is None or (field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING)
    return key not in getattr(structure, "_field_defaults", {}) and (
        hasattr(structure, "_fields") or not hasattr(structure, key)
    )


def renamed(invariant: Invariant, names: Mapping[str, str]) -> Invariant:
    """`invariant` with the arguments that it refers to renamed, where `names` has them."""
    others = [name for name in invariant.arguments() if name in names]
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(invariant):  # type: ignore[arg-type]
        value = getattr(invariant, field.name)
        if isinstance(value, str) and value in others:
            changed[field.name] = names[value]
        elif isinstance(value, tuple) and any(one in others for one in value):
            changed[field.name] = tuple(names.get(one, one) for one in value)
    return type(invariant).rebuild({**dataclasses.asdict(invariant), **changed}) if changed else invariant  # type: ignore[call-overload]


def fetch(owner: Any, key: str | int, required: bool) -> Any:
    """A field of metadata. Absent: `Missing` where it is required, else None. Called from generated code."""
    if isinstance(key, int):
        value = owner[key] if isinstance(owner, (tuple, list)) and key < len(owner) else Missing
    elif isinstance(owner, (dict, Mapping)):
        value = owner.get(key, Missing)
    else:
        value = getattr(owner, key, Missing)
    if required:
        return Missing if value is None else value
    return None if value is Missing else value
