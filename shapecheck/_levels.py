"""How much a contract checks, and what that may cost."""

import os
from enum import IntEnum

VARIABLE = "SHAPECHECK"


class Level(IntEnum):
    """Each level checks what those before it check.

    off: nothing; `contract` returns the function itself.
    shape: ranks, sizes, dtypes and devices of tensors, Python numbers, and hints that hold no tensor. In a compiled
        region these are guards, and free.
    host: values of CPU tensors and of sequences of numbers. The default.
    device: values on accelerators, by one asynchronous assertion; no sync, and a violation is a RuntimeError.
    sync: values on accelerators, copied to the host and fully explained; for debugging.
    """

    OFF = 0
    SHAPE = 1
    HOST = 2
    DEVICE = 3
    SYNC = 4


DEFAULT = Level.HOST


def parse_level(text: object, source: str) -> Level:
    """The level called `text`; raises ValueError that names `source` and the valid levels."""
    try:
        return Level[str(text).strip().upper()]
    except KeyError:
        valid = ", ".join(level.name.lower() for level in Level)
        raise ValueError(f"{source}={text!r}: expected one of {valid}") from None


def resolve_level(level: str | None) -> Level:
    """The level in force: the contract's own, else the environment's (`SHAPECHECK`), else `host`."""
    if level is not None:
        return parse_level(level, "level")
    text = os.environ.get(VARIABLE, "")
    return parse_level(text, VARIABLE) if text.strip() else DEFAULT
