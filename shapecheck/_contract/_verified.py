"""Verified once: values that were checked are not read again as long as nobody changed them in place.

A tensor is the same if it is the same object with the same version counter. What bypasses that counter (writing through
`.data`, or through the numpy array that shares its memory) goes unnoticed; so does nothing else.
"""

import weakref
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from shapecheck._contract._values import host_readable

_MOST = 64
"""Calls remembered by one contract: branches, layers and buckets take turns."""


class Verified:
    """The value checks of one contract that turned out well, by what they looked at."""

    def __init__(self) -> None:
        self._calls: dict[Any, tuple[tuple[weakref.ref[Tensor], int], ...]] = {}

    def knows(self, operands: Sequence[Any], symbols: Sequence[Any]) -> bool:
        """Whether these operands, unchanged, were found good with these sizes."""
        if not self._calls:
            return False
        try:
            found = self._calls.get(_key(operands, symbols))
        except TypeError:  # something unhashable in a sequence
            return False
        if found is None:
            return False
        tensors = [one for one in operands if isinstance(one, Tensor)]
        return all(
            reference() is tensor and not tensor.is_inference() and tensor._version == version
            for tensor, (reference, version) in zip(tensors, found, strict=True)
        )

    def remember(self, operands: Sequence[Any], symbols: Sequence[Any], sync: bool) -> None:
        """Keep in mind that these operands are good; only if each was really read."""
        tensors = [one for one in operands if isinstance(one, Tensor)]
        if not tensors or not all(host_readable(one, sync) and not one.is_inference() for one in tensors):
            return
        try:
            key = _key(operands, symbols)
            entry = tuple((weakref.ref(one), one._version) for one in tensors)
            if len(self._calls) >= _MOST:
                self._calls.clear()
            self._calls[key] = entry
        except TypeError:
            return


def _key(operands: Sequence[Any], symbols: Sequence[Any]) -> Any:
    named = [
        id(one) if isinstance(one, Tensor) else (tuple(one),) if isinstance(one, (list, tuple)) else (type(one), one)
        for one in operands
    ]
    return (*named, *symbols)
