"""Packed-sequence contracts for PyTorch.

Nothing here imports torch, jaxtyping or beartype before a name that needs them is read.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shapecheck._attention._function import varlen_attention as varlen_attention
    from shapecheck._contract import Fields as Fields
    from shapecheck._contract import Preset as Preset
    from shapecheck._contract import contract as contract
    from shapecheck._contract import preset as preset
    from shapecheck._errors import AnnotationError as AnnotationError
    from shapecheck._errors import ContractError as ContractError
    from shapecheck._errors import ContractWarning as ContractWarning
    from shapecheck._errors import LayoutError as LayoutError
    from shapecheck._invariants import AtLeastLongest as AtLeastLongest
    from shapecheck._invariants import Contiguous as Contiguous
    from shapecheck._invariants import InRange as InRange
    from shapecheck._invariants import MultipleOf as MultipleOf
    from shapecheck._invariants import OneOf as OneOf
    from shapecheck._invariants import Partition as Partition
    from shapecheck._invariants import PrefixSum as PrefixSum
    from shapecheck._invariants import SameAsHost as SameAsHost
    from shapecheck._invariants import SameBatch as SameBatch
    from shapecheck._invariants import SameDevice as SameDevice
    from shapecheck._layout import PackedLayout as PackedLayout
    from shapecheck._layout import Part as Part
    from shapecheck._settings import configure as configure
    from shapecheck.compile_backend.explain import explain as explain

_HOMES = {
    "Fields": "shapecheck._contract",
    "Preset": "shapecheck._contract",
    "contract": "shapecheck._contract",
    "preset": "shapecheck._contract",
    "AnnotationError": "shapecheck._errors",
    "ContractError": "shapecheck._errors",
    "ContractWarning": "shapecheck._errors",
    "LayoutError": "shapecheck._errors",
    "AtLeastLongest": "shapecheck._invariants",
    "Contiguous": "shapecheck._invariants",
    "InRange": "shapecheck._invariants",
    "MultipleOf": "shapecheck._invariants",
    "OneOf": "shapecheck._invariants",
    "Partition": "shapecheck._invariants",
    "PrefixSum": "shapecheck._invariants",
    "SameAsHost": "shapecheck._invariants",
    "SameBatch": "shapecheck._invariants",
    "SameDevice": "shapecheck._invariants",
    "PackedLayout": "shapecheck._layout",
    "Part": "shapecheck._layout",
    "configure": "shapecheck._settings",
    "varlen_attention": "shapecheck._attention._function",
    "explain": "shapecheck.compile_backend.explain",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("shapecheck-varlen")
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'shapecheck' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "__version__"})
