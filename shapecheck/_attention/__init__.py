"""Attention over packed rows: `shapecheck.varlen_attention`, its operators and their kernels."""

import shapecheck._attention._op  # noqa: F401  registers the operators
