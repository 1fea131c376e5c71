"""Contracts of functions that one does not own, each the signature of one consumer of packed metadata.

    from shapecheck import contract
    from shapecheck.presets import h3
    H3DiT.forward = contract(h3.forward)(H3DiT.forward)

A preset finds the arguments by their names, positional or keyword, among the function's parameters or in its
`**kwargs`; arguments that it does not name are left to the function. `shapecheck.testing` has generators of valid and
of broken calls of each.
"""

import importlib
from types import ModuleType

_MODULES = ("ascend", "fla", "flash_attn", "h3", "thd", "torch_varlen", "transformers")

__all__ = list(_MODULES)


def __getattr__(name: str) -> ModuleType:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
