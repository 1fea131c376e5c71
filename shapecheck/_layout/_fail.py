"""How a `LayoutError` leaves code that torch.compile is tracing."""

from typing import NoReturn

import torch

from shapecheck._errors import LayoutError


class CapturedLayoutError(LayoutError, AssertionError):
    """A `LayoutError` raised while Dynamo traces.

    Dynamo turns exceptions of traced code into `Unsupported` and drops the message. What a function that it runs for
    its result raises gets through, provided it is an AssertionError (measured on torch 2.13).
    """


def fail(message: str) -> NoReturn:
    """Raises `LayoutError(message)`, so that it reaches the user from a compile capture too."""
    if torch.compiler.is_compiling():
        _raise(message)
    raise LayoutError(message)


def shown(number: int) -> int:
    """`number`, for an f-string in traced code.

    Dynamo formats a symbolic int that it computed, and stumbles over one that is part of an argument (torch 2.13).
    """
    return number + 0


@torch._dynamo.assume_constant_result  # type: ignore[untyped-decorator]
def _raise(message: str) -> None:
    raise CapturedLayoutError(message)
