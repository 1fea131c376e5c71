"""Attention over packed rows, from its definition: one dense mask, float64, no kernel."""

from itertools import pairwise

import torch
from torch import Tensor


def visible(
    rows_q: int,
    rows_k: int,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    *,
    causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    order_q: Tensor | None = None,
    order_k: Tensor | None = None,
) -> Tensor:
    """Which query row sees which key row: bool `[Tq, Tk]`."""
    mask = torch.zeros(rows_q, rows_k, dtype=torch.bool)
    left, right = window
    bounds = zip(pairwise(cu_seqlens_q.tolist()), pairwise(cu_seqlens_k.tolist()), strict=True)
    for (start_q, end_q), (start_k, end_k) in bounds:
        rows, keys = torch.arange(start_q, end_q), torch.arange(start_k, end_k)
        if order_q is None or order_k is None:
            # Where each key stands, seen from each query: both segments end at the same position.
            ahead = (keys - end_k) - (rows - end_q)[:, None]
        else:
            rows, keys = order_q[rows], order_k[keys]
            ahead = keys - rows[:, None]
        seen = torch.ones_like(ahead, dtype=torch.bool)
        if causal:
            seen &= ahead <= 0
        if left >= 0:
            seen &= ahead >= -left
        if right >= 0:
            seen &= ahead <= right
        mask[rows[:, None], keys] = seen
    return mask


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """The result `[Tq, Hq, Dv]` and the log-sum-exp `[Hq, Tq]` in float64, differentiable. Unseeing rows: 0 and -inf."""
    share = q.shape[1] // k.shape[1]
    k, v = (one.double().repeat_interleave(share, dim=1) for one in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q.double(), k) * scale
    sees = mask.any(1)
    weights = scores.masked_fill(~mask, -torch.inf)[:, sees].softmax(-1)
    out = scores.new_zeros(q.shape[0], q.shape[1], v.shape[2])
    out[sees] = torch.einsum("hqk,khd->qhd", weights, v)
    return out, scores.masked_fill(~mask, -torch.inf).logsumexp(-1).detach()
