"""A progress bar on a terminal, for runs that take long."""

import sys
import time
from types import TracebackType
from typing import Any

_AFTER_S = 1.0


class Progress:
    """Shows how far a run is once it took a second, if stderr is a terminal; vanishes at the end."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._shown = sys.stderr.isatty()
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Takes the number of files that are done, and of all."""
        if not self._shown or (self._bar is None and time.monotonic() - self._started < _AFTER_S):
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import Progress as Bar

            self._bar = Bar(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("Linting", total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done)
