"""Which layout a tensor came from, so that an error about it can draw the row it should have described."""

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from shapecheck._layout._geometry import Geometry

# The value is the geometry, never the layout: a layout holds its tensors, and would keep its own keys alive.
_origins: WeakIdKeyDictionary = WeakIdKeyDictionary()


def remember(tensor: Tensor, geometry: Geometry) -> None:
    """Records that the rows of `tensor` are those of `geometry`, for as long as the tensor object lives.

    Does nothing while torch.compile traces: the tensors there are stand-ins.
    """
    if not torch.compiler.is_compiling():
        _origins[tensor] = geometry


def origin(tensor: Tensor) -> Geometry | None:
    """The geometry that `tensor` was made from, or None. Follows the object, not its values: `x + 0` is unknown."""
    found: Geometry | None = _origins.get(tensor)  # type: ignore[no-untyped-call]
    return found
