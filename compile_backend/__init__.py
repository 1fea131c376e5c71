"""The torch.compile backend. Installs as `shapecheck.compile_backend`."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shapecheck.compile_backend.compiler import backend as backend
    from shapecheck.compile_backend.pipeline import rewrite as rewrite

_HOMES = {"backend": "compiler", "rewrite": "pipeline"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
