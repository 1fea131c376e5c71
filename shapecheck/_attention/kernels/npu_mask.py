"""Ascend's way of saying which keys a query sees: a sparse mode, its mask, and the edges of a band."""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from shapecheck._attention._call import Call

UNLIMITED = 2147483647
"""The operators' own default for an edge of the band."""

FULL, CAUSAL, BAND = 0, 3, 4
"""`sparse_mode`: all keys of the segment; causal and band, both aligned at the segment's end (bottom-right)."""

_COMPRESSED = 2048


@dataclass(frozen=True, slots=True)
class Masking:
    """The mask arguments of an operator.

    Attributes:
        sparse_mode: `FULL`, `CAUSAL` or `BAND`.
        mask: the compressed mask, bool `[2048, 2048]`, True where a key is NOT seen; None for `FULL`.
        before: keys before its own position that a query sees (`pre_tockens`).
        ahead: keys ahead of its own position that a query sees (`next_tockens`).
    """

    sparse_mode: int
    mask: Tensor | None
    before: int
    ahead: int


def masking(call: Call, longest_q: int, device: torch.device) -> Masking:
    """The mask arguments for segments of a call whose longest has `longest_q` query rows.

    Without a mask the operators ignore `sparse_mode` and the band and see the whole segment, which is block-diagonal
    attention. A single query stands at the last key, so causal is full for it; said so because the inference operator
    ignores the mask of single queries ("Q_S = 1").
    """
    before = call.window[0]
    ahead = 0 if call.causal else call.window[1]
    if before < 0 and (ahead < 0 or (ahead == 0 and longest_q == 1)):
        return Masking(FULL, None, UNLIMITED, UNLIMITED)
    mode = CAUSAL if before < 0 and ahead == 0 else BAND
    return Masking(mode, _compressed(device), UNLIMITED if before < 0 else before, UNLIMITED if ahead < 0 else ahead)


@functools.lru_cache(maxsize=16)
def _compressed(device: torch.device) -> Tensor:
    # Shared by training and inference, and inference tensors must not meet autograd.
    with torch.inference_mode(False):
        return torch.ones(_COMPRESSED, _COMPRESSED, dtype=torch.bool, device=device).triu(1)
