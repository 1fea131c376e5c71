"""Gitignore-style patterns, relative to a folder. The matcher is imported when there is a pattern."""

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

from shapecheck.codemods.errors import UserError


class PatternError(UserError):
    """A pattern that cannot be read; the message names it."""


@cache
def _compile(patterns: tuple[str, ...]) -> Any:
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise PatternError(f"a pattern of exclude, extend-exclude, per-file-ignores or .gitignore: {error}") from None


def check_patterns(patterns: Sequence[str]) -> None:
    """Make sure that `verdict` will take some patterns.

    Raises:
        PatternError: one cannot be read.
    """
    if patterns:
        _compile(tuple(patterns))


def verdict(patterns: Sequence[str], root: str, path: str, *, folder: bool = False) -> bool | None:
    """What the last matching pattern says of an absolute path: True, False (a `!` pattern), None if no pattern matches.

    Paths outside `root` match nothing.

    Raises:
        PatternError: a pattern cannot be read.
    """
    if not patterns:
        return None
    relative = os.path.relpath(path, root)
    if relative == "." or relative.startswith(".."):
        return None
    spec = _compile(tuple(patterns))
    result: bool | None = spec.check_file(relative.replace(os.sep, "/") + "/" * folder).include
    return result
