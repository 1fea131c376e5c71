"""`PackedLayout`: what the rows of a packed tensor mean, and every piece of metadata derived from it.

Names are resolved lazily: `_geometry` and `_parts` work without torch, and `shapecheck layout` relies on that.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shapecheck._layout._geometry import Geometry as Geometry
    from shapecheck._layout._geometry import Span as Span
    from shapecheck._layout._layout import PackedLayout as PackedLayout
    from shapecheck._layout._origin import origin as origin
    from shapecheck._layout._origin import remember as remember
    from shapecheck._layout._parts import Part as Part

_HOMES = {
    "Geometry": "_geometry",
    "Span": "_geometry",
    "PackedLayout": "_layout",
    "origin": "_origin",
    "remember": "_origin",
    "Part": "_parts",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
