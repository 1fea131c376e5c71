"""Hints that hold no tensor are beartype's. This is all that shapecheck knows of it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from beartype import BeartypeConf, beartype
from beartype.door import is_bearable
from beartype.roar import BeartypeCallHintViolation, BeartypeException

from shapecheck._errors import AnnotationError

# An int is a valid float (PEP 484), and a random item would make the verdict depend on luck.
CONFIG = BeartypeConf(is_random=False, is_pep484_tower=True)


def is_validator(metadata: object) -> bool:
    """Whether `metadata` of an `Annotated` is one of beartype's validators (`Is[...]` and its kin)."""
    return type(metadata).__module__.startswith("beartype.vale")


def parts(hint: Any) -> Iterator[Any]:
    """The hints and the metadata that `hint` is made of, keys of a TypedDict and aliases included.

    Not the fields of a dataclass, which is a class to be an instance of, and not what a callable takes and returns,
    which nobody can check.
    """
    if get_origin(hint) is Callable:
        return
    if is_typeddict(hint):
        try:
            yield from get_type_hints(hint, include_extras=True).values()
        except Exception:  # fields of somebody else's class that only a type checker can resolve
            return
    for inside in ("__supertype__", "__bound__", "__value__"):  # NewType, TypeVar, a type alias
        if not isinstance(hint, type) and getattr(hint, inside, None) is not None:
            yield getattr(hint, inside)
    yield from getattr(hint, "__constraints__", ())
    yield from getattr(hint, "__metadata__", ())
    yield from get_args(hint)


def mentions(hint: Any, test: Callable[[Any], bool], *, _seen: tuple[Any, ...] = ()) -> bool:
    """Whether something inside `hint`, or `hint` itself, passes `test`."""
    if any(hint is seen for seen in _seen):
        return False  # a recursive alias
    return test(hint) or any(mentions(part, test, _seen=(*_seen, hint)) for part in parts(hint))


def checker(hints: Mapping[str, Any]) -> Callable[..., bool]:
    """A function that takes the values of `hints` in order and says whether beartype accepts all of them.

    Raises AnnotationError for a hint that beartype does not know.
    """
    for name, hint in hints.items():
        try:
            _enforced({"value": hint})
        except BeartypeException as error:
            raise AnnotationError(f"{name}: beartype cannot enforce {hint!r}: {error}") from error
    check = _enforced({f"argument_{i}": hint for i, hint in enumerate(hints.values())})

    def accepts(*values: Any) -> bool:
        try:
            check(*values)
        except BeartypeCallHintViolation:
            return False
        except Exception:  # from the value's own repr, which beartype's message wants
            return all(accepts_one(value, hint) for value, hint in zip(values, hints.values(), strict=True))
        return True

    return accepts


def _enforced(hints: Mapping[str, Any]) -> Callable[..., None]:
    namespace: dict[str, Any] = {}
    exec(f"def check({', '.join(hints)}): pass", namespace)
    check: Callable[..., None] = namespace["check"]
    check.__annotations__ = dict(hints)
    return beartype(conf=CONFIG)(check)


def accepts_one(value: Any, hint: Any) -> bool:
    """Whether beartype accepts `value` as `hint`."""
    return bool(is_bearable(value, hint, conf=CONFIG))
