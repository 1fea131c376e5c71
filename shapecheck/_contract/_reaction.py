"""What happens with a violation: it is raised, warned of, or given to the user's own function."""

import sys
import threading
import time
import warnings
from types import FrameType
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from shapecheck._errors import ContractError, ContractWarning
from shapecheck._settings import Reaction

if TYPE_CHECKING:
    from shapecheck._contract._decorator import Contract

PERIOD = 60.0
"""Seconds between two warnings of one call site."""

_MOST_SITES = 10_000
_INSIDE = ("shapecheck.", "torch.", "importlib.")

contracts: "WeakValueDictionary[int, Contract]" = WeakValueDictionary()
"""The contracts of this process, by the number that operators in compiled graphs know them by."""

_lock = threading.Lock()
_sites: dict[tuple[str, int], tuple[float, int]] = {}  # call site -> time of the last warning, and how many since


def react(reaction: Reaction, error: ContractError) -> None:
    """Raise `error`, warn of it, or hand it to the user's function, whose result does not matter."""
    if callable(reaction):
        reaction(error)
    elif reaction == "warn":
        _warn(error)
    else:
        raise error


def _warn(error: ContractError) -> None:
    """Warn with the line of the caller, at most once in `PERIOD` for each such line."""
    filename, line, module = _call_site(sys._getframe(1))
    now = time.monotonic()
    with _lock:
        last, held_back = _sites.get((filename, line), (None, 0))
        if last is not None and now - last < PERIOD:
            _sites[filename, line] = (last, held_back + 1)
            return
        if len(_sites) >= _MOST_SITES:
            _sites.clear()
        _sites[filename, line] = (now, 0)
    more = f"\n  {held_back} more from this line since the last warning" if held_back else ""
    # No registry: Python would hold back equal texts for good.
    warnings.warn_explicit(f"{error}{more}", ContractWarning, filename, line, module)


def _call_site(frame: FrameType | None) -> tuple[str, int, str]:
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        inside = module in ("shapecheck", "torch", "") or module.startswith(_INSIDE)
        if not inside and not frame.f_code.co_filename.startswith("<"):
            return frame.f_code.co_filename, frame.f_lineno, module
        frame = frame.f_back
    return "<unknown>", 0, "<unknown>"
