"""The exceptions that shapecheck raises. Free of torch, so that `except shapecheck.ContractError` costs no import."""

from typing import Any


class LayoutError(ValueError):
    """A `PackedLayout` was described, filled or read with numbers that cannot describe one row of tokens."""


class AnnotationError(TypeError):
    """An annotation under `@contract` cannot be resolved, is malformed, or can never be checked.

    Raised where the function is decorated: an annotation that silently means nothing is worse than none.
    """


class ContractError(ValueError):
    """A call whose arguments do not fit together.

    Attributes:
        argument: name of the offending argument; `"return"` for the result.
        axis: the offending axis, counted from 0, or None where no single axis is at fault.
        expected: what the contract asked for.
        actual: what the call brought.
        bound_by: name of the argument that fixed `expected`, or None for a constant of the annotation.
        hint: how to mend the call, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        argument: str | None = None,
        axis: int | None = None,
        expected: Any = None,
        actual: Any = None,
        bound_by: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.argument = argument
        self.axis = axis
        self.expected = expected
        self.actual = actual
        self.bound_by = bound_by
        self.hint = hint


class ContractWarning(UserWarning):
    """A call whose arguments do not fit together, under `on_violation="warn"`. Its text is the `ContractError`'s."""
