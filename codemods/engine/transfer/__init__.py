"""What library calls do to values: one small function each, in files by family."""

from shapecheck.codemods.engine.transfer import (  # noqa: F401  (importing registers)
    einops_ops,
    lists,
    numpy_build,
    torch_build,
    torch_rows,
)
from shapecheck.codemods.engine.transfer._registry import FUNCTIONS, METHODS, RESULTS, CallView

__all__ = ["FUNCTIONS", "METHODS", "RESULTS", "CallView"]
