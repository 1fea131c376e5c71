"""The axes of one jaxtyping annotation. Free of torch and of jaxtyping's private classes."""

import re
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
        broadcast: whether a size of 1 is fine too (`#S`).
        source: an `"expression"` in the grammar of expressions: `{self.heads}` is a symbol there.
        attributes: the dotted names in braces.
    """

    kind: Literal["fixed", "name", "expression", "any", "run"]
    text: str
    size: int = 0
    name: str = ""
    broadcast: bool = False
    source: str = ""
    attributes: tuple[str, ...] = ()

    @property
    def expression(self) -> Expression:
        return parse(self.source or self.text)


def attribute_symbol(path: str) -> str:
    """The symbol that stands for `{path}` in expressions."""
    return path.replace(".", "__dot__") + "__"


def parse_dims(text: str) -> tuple[Dim, ...]:
    """Parse the axis string of a jaxtyping annotation.

    `{self.heads}` reads an attribute of an argument at the call, or a number among the arguments.

    Raises ValueError, in the user's terms, for what is malformed or not supported: broadcastable runs and expressions,
    tree-path axes (`?S`), two runs, a negative size, an expression outside the grammar.
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
    if "?" in modifiers:
        raise ValueError(f"{text!r}: tree-path axes are not supported by @contract")
    if modifiers.count("*") > 1:
        raise ValueError(f"{text!r}: `*` must be followed by a name")
    run, broadcast = "*" in modifiers, "#" in modifiers
    body = body[len(modifiers) :]
    if broadcast and (run or not (body.isidentifier() or body.isdecimal())):
        raise ValueError(f"{text!r}: only a name or a number can be broadcastable under @contract")
    if body.startswith("_") and (body == "_" or body.isidentifier()):
        return Dim("run" if run else "any", text)
    if body.isidentifier():
        return Dim("run" if run else "name", text, name=body, broadcast=broadcast)
    if run:
        raise ValueError(f"{text!r}: `*` must be followed by a name")
    if "{" in body:
        return _of_attributes(body)
    try:
        size = int(body)
    except ValueError:
        return Dim("expression", parse(body).source)
    if size < 0:
        raise ValueError(f"{text!r}: an axis cannot have a negative size")
    return Dim("fixed", text, size=size, broadcast=broadcast)


_BRACES = re.compile(r"\{([^{}]*)\}")


def _of_attributes(text: str) -> Dim:
    paths = tuple(dict.fromkeys(_BRACES.findall(text)))
    for path in paths:
        if not all(part.isidentifier() for part in path.split(".")):
            raise ValueError(f"{text!r}: {{{path}}} must be the dotted name of a number, as {{self.heads}} is")
    source = _BRACES.sub(lambda found: attribute_symbol(found[1]), text)
    return Dim("expression", text, source=parse(source).source, attributes=paths)
