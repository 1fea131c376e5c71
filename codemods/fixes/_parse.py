"""Parsing for comparison: quiet, and without an exception for text that is no Python."""

import ast
import warnings


def parsed(text: str) -> ast.Module | None:
    """The module; None if the text does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in a user's string is not our news
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
