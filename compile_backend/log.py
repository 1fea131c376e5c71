"""Logging of the backend: one line for each graph, and on demand what became of each attention.

The logger is "shapecheck.compile_backend". At level INFO it gets the line, at DEBUG the sites. The environment variable
`SHAPECHECK_LOGS` prints them to stderr: `compile` the lines, `+compile` the sites too.
"""

import logging
import os
import sys
from typing import TextIO

from shapecheck.compile_backend.report import Report

VARIABLE = "SHAPECHECK_LOGS"
LOGGER = logging.getLogger("shapecheck.compile_backend")

_LEVELS = {"compile": logging.INFO, "+compile": logging.DEBUG}


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to whatever `sys.stderr` is at the moment."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(logging.Formatter("%(asctime)s [%(name)s] %(message)s"))

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


_HANDLER = _Stderr()


def configure() -> None:
    """Obey `SHAPECHECK_LOGS`; the backend calls it whenever it starts. What it set once stays, as in `TORCH_LOGS`.

    Raises:
        ValueError: for a name that is none; it names the valid ones.
    """
    level = _level(os.environ.get(VARIABLE, ""))
    if level is None or _HANDLER in LOGGER.handlers:
        return
    LOGGER.addHandler(_HANDLER)
    LOGGER.setLevel(level)
    LOGGER.propagate = False  # the handlers of the root logger would print each line again


def _level(setting: str) -> int | None:
    names = [name.strip() for name in setting.split(",") if name.strip()]
    for name in names:
        if name not in _LEVELS:
            raise ValueError(f"{VARIABLE}={setting!r}: {name!r} is unknown, expected one of {', '.join(_LEVELS)}")
    return min((_LEVELS[name] for name in names), default=None)


def report(result: Report) -> None:
    """Log what became of one graph."""
    LOGGER.info("%s", _line(result))
    if result.sites and LOGGER.isEnabledFor(logging.DEBUG):
        from shapecheck.compile_backend.show import table

        LOGGER.debug("attentions:\n%s", table.for_log(result))


def _line(report: Report) -> str:
    took = f"{report.seconds * 1000:.0f} ms"
    if report.failure:
        return f"graph left as it is, {took}: {report.failure}"
    if not report.sites:
        return f"no attention found, {took}"
    count = len(report.sites)
    return f"{len(report.lowered)} of {count} attention{'s' * (count != 1)} lowered, {took}"
