"""One batched attention of the plan."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shapecheck._attention.kernels.cpu_band import Band, additive, visible
from shapecheck._attention.kernels.cpu_rows import Rows


@dataclass(frozen=True, slots=True)
class Numbered:
    """The mask of queries and keys whose row numbers the band compares.

    Made anew for each use: kept, those of a long segment would take as much memory as its dense mask.
    """

    rows_q: Tensor
    rows_k: Tensor
    band: Band


@dataclass(frozen=True, slots=True)
class Piece:
    """Groups of queries, each with a group of keys. Every query that is written back sees some key.

    Attributes:
        q: the query rows.
        k: as many groups of key rows.
        causal: query `a` of a group sees keys `0..a`.
        mask: float32 `[groups or 1, 1, rows of q, rows of k]`, 0 where a query sees a key, else -inf; or None.
    """

    q: Rows
    k: Rows
    causal: bool = False
    mask: Tensor | Numbered | None = None

    def mask_for(self, dtype: torch.dtype) -> Tensor | None:
        """The mask as the fused kernels take it: float32, but float64 with float64."""
        mask = self.mask
        if isinstance(mask, Numbered):
            mask = additive(visible(mask.rows_q, mask.rows_k, mask.band))[None, None]
        return mask.to(dtype) if mask is not None and dtype == torch.float64 else mask
