"""Presets: the signature of one function as the contract of another, which one does not own."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preset:
    """The contract of functions that somebody else wrote: `contract(preset)(Model.forward)`.

    Attributes:
        function: its signature is the specification; its body never runs.

    A parameter of the specification is found by its name: among the function's parameters, else in its `**kwargs`. One
    with a default may be missing from the function; arguments that the specification does not name are not looked at.
    """

    function: Callable[..., Any]

    def __repr__(self) -> str:
        return f"<preset {self.function.__qualname__}>"


def preset(function: Callable[..., Any], /) -> Preset:
    """Make a preset of a function's signature.

    Raises AnnotationError for annotations that cannot be enforced.
    """
    from shapecheck._contract._annotations import read

    read(function, vars(sys.modules[function.__module__]))
    return Preset(function)
