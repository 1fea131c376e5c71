"""The axes of one jaxtyping annotation. Free of torch and of jaxtyping's private classes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from shapecheck._expressions import Expression, parse


@dataclass(frozen=True)
class Dim:
    """One axis, or one run of axes, as the annotation states it.

    Attributes:
        kind: `"fixed"` a number, `"name"` a symbol, `"expression"` arithmetic over symbols, `"any"` one axis that is
            not looked at, `"run"` any number of axes (`...` or `*name`).
        text: as written.
        size: the number, for `"fixed"`.
        name: the symbol, for `"name"`, and for a `"run"` whose sizes are compared.
    """

    kind: Literal["fixed", "name", "expression", "any", "run"]
    text: str
    size: int = 0
    name: str = ""

    @property
    def expression(self) -> Expression:
        return parse(self.text)


def parse_dims(text: str) -> tuple[Dim, ...]:
    """Parse the axis string of a jaxtyping annotation.

    Raises ValueError, in the user's terms, for what is malformed or not supported: broadcastable (`#S`) and
    tree-path (`?S`) axes, two runs, a negative size, an expression outside the grammar.
    """
    dims = tuple(_parse_dim(element) for element in text.split())
    if sum(dim.kind == "run" for dim in dims) > 1:
        raise ValueError("only one of `...` and `*name` can stand in one annotation")
    return dims


def positions(dims: Sequence[Dim]) -> Iterator[tuple[int, Dim]]:
    """The single axes with their index, negative behind a run."""
    run = next((i for i, dim in enumerate(dims) if dim.kind == "run"), len(dims))
    for i, dim in enumerate(dims):
        if i != run:
            yield (i if i < run else i - len(dims)), dim


def _parse_dim(text: str) -> Dim:
    body = text.partition("=")[2] if "=" in text else text  # `name=4` documents the axis; the 4 is checked
    if body == "...":
        return Dim("run", text)
    modifiers = body[: len(body) - len(body.lstrip("*#?"))]
    for mark, meaning in (("#", "broadcastable axes"), ("?", "tree-path axes"), ("{", "axes from an attribute")):
        if mark in modifiers or (mark == "{" and mark in body):
            raise ValueError(f"{text!r}: {meaning} are not supported by @contract")
    run = body.startswith("*")
    body = body.removeprefix("*")
    if body.startswith("_") and (body == "_" or body.isidentifier()):
        return Dim("run" if run else "any", text)
    if body.isidentifier():
        return Dim("run" if run else "name", text, name=body)
    if run:
        raise ValueError(f"{text!r}: `*` must be followed by a name")
    try:
        size = int(body)
    except ValueError:
        return Dim("expression", parse(body).source)
    if size < 0:
        raise ValueError(f"{text!r}: an axis cannot have a negative size")
    return Dim("fixed", text, size=size)
