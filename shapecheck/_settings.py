"""What is in force where a contract says nothing itself: `shapecheck.configure`. Free of torch."""

import threading
from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self, TypeAlias

from shapecheck._errors import ContractError
from shapecheck._levels import Level, parse_level

Reaction: TypeAlias = Literal["raise", "warn"] | Callable[[ContractError], object]

REACTIONS = ("raise", "warn")


@dataclass(frozen=True)
class Settings:
    """A level and a reaction; None leaves the next source to decide."""

    level: Level | None = None
    reaction: Reaction | None = None

    def over(self, other: "Settings") -> "Settings":
        """These settings, and where they are None those of `other`."""
        return Settings(
            other.level if self.level is None else self.level,
            other.reaction if self.reaction is None else self.reaction,
        )


_process = Settings()
_scoped: ContextVar[Settings | None] = ContextVar("shapecheck", default=None)
_lock = threading.Lock()
_touched = False
"""Whether `configure` was ever called. Never back to False: a context that was copied inside a scope may live on."""


class configure:  # noqa: N801  a function that can also stand after `with`
    """Set what contracts without settings of their own do: for the process, or inside a `with` block.

    `shapecheck.configure(level="shape")` holds for the whole process. `with shapecheck.configure(level="sync"):` holds
    inside the block, in its thread and async task and the tasks started there. What a contract's own argument says
    comes first, then the innermost block, the process, the environment variable `SHAPECHECK` (the level only, read
    when a function is decorated), and the default (`"host"`, `"raise"`).

    It takes effect at the next eager call. A compiled region keeps what was in force when it was captured, so that a
    change neither recompiles it nor alters it; `torch.compiler.reset()` captures anew. A function that was decorated
    under `SHAPECHECK=off` is not wrapped at all, and stays so.

    Args:
        level: `"off"`, `"shape"`, `"host"`, `"device"` or `"sync"`; None leaves it as it is.
        on_violation: `"raise"`, `"warn"`, or a function that is given the `ContractError`; None leaves it as it is.

    Raises ValueError for anything else.
    """

    def __init__(
        self,
        *,
        level: Literal["off", "shape", "host", "device", "sync"] | None = None,
        on_violation: Reaction | None = None,
    ) -> None:
        global _process, _touched  # noqa: PLW0603
        parsed = None if level is None else parse_level(level, "level")
        self._settings = Settings(parsed, None if on_violation is None else parse_reaction(on_violation))
        self._tokens: list[Token[Settings | None]] = []
        with _lock:
            self._before = _process
            self._set = self._settings.over(_process)
            _process = self._set
            _touched = True

    def __enter__(self) -> Self:
        global _process  # noqa: PLW0603
        with _lock:
            if _process is self._set:
                _process = self._before
        self._tokens.append(_scoped.set(self._settings.over(_scoped.get() or Settings())))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _scoped.reset(self._tokens.pop())


def parse_reaction(reaction: object) -> Reaction:
    """`reaction` if it is one; raises ValueError that names the valid ones."""
    if callable(reaction) or reaction in REACTIONS:
        return reaction  # type: ignore[return-value]
    raise ValueError(f"on_violation={reaction!r}: expected 'raise', 'warn' or a function of the ContractError")


def level_in_force(decorated: int) -> int:
    """The level of a contract without one of its own, which found `decorated` when its function was decorated."""
    if not _touched:
        return decorated
    level = (_scoped.get() or Settings()).over(_process).level
    return decorated if level is None else int(level)


def reaction_in_force(own: Reaction | None) -> Reaction:
    """What a contract whose own reaction is `own` does about a violation."""
    if own is not None:
        return own
    return (_scoped.get() or Settings()).over(_process).reaction or "raise"


def configured_level() -> Level | None:
    """The level that `configure` has set here, or None."""
    return (_scoped.get() or Settings()).over(_process).level
