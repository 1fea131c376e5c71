"""Attention inside each segment of a packed row: one attention per segment, or one attention under a mask of all rows.

Both give the same. A mask has S x S entries, and the attention under it computes all of them: it is how attention is
mostly written, and what `torch.compile(model, backend="shapecheck")` turns into attention per segment.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int32
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


class Segments(NamedTuple):
    """Which rows attend to which, as varlen kernels take it.

    Attributes:
        cu_seqlens_q: boundaries of the query segments, int32.
        cu_seqlens_k: boundaries of the key segments, int32; query segment i attends to key segment i.
        cu_seqlens_q_host: the values of `cu_seqlens_q`.
        cu_seqlens_k_host: the values of `cu_seqlens_k`.
        max_seqlen: rows of the longest segment, padding not counted.
    """

    cu_seqlens_q: Int32[Tensor, "B+1"]
    cu_seqlens_k: Int32[Tensor, "B+1"]
    cu_seqlens_q_host: Sequence[int]
    cu_seqlens_k_host: Sequence[int]
    max_seqlen: int


def segment_attention(
    q: Float[Tensor, "S heads D"],
    k: Float[Tensor, "Sk heads D"],
    v: Float[Tensor, "Sk heads D"],
    segments: Segments,
) -> Float[Tensor, "S heads D"]:
    """Attention of query segment i over key segment i; zeros in rows that no segment covers.

    Reads the host copy of the boundaries only: reading the device copy would stall the device in every layer. Like
    the fused kernels it trusts them: it is the contract of the model that checks them, once a forward.
    """
    attended: list[Tensor] = []
    spans = zip(pairwise(segments.cu_seqlens_q_host), pairwise(segments.cu_seqlens_k_host), strict=False)
    covered = 0
    for (q_start, q_stop), (k_start, k_stop) in spans:
        covered = q_stop
        if q_start == q_stop:
            continue
        if k_start == k_stop:  # SDPA over no keys is NaN
            attended.append(torch.zeros_like(q[q_start:q_stop]))
            continue
        one = scaled_dot_product_attention(
            _heads_first(q, q_start, q_stop), _heads_first(k, k_start, k_stop), _heads_first(v, k_start, k_stop)
        )
        attended.append(one.squeeze(0).transpose(0, 1))
    attended.append(torch.zeros_like(q[covered:]))
    return torch.cat(attended)


def _heads_first(x: Tensor, start: int, stop: int) -> Float[Tensor, "1 heads rows D"]:
    return x[start:stop].transpose(0, 1).unsqueeze(0)


def segment_mask(segments: Segments, rows: int) -> Bool[Tensor, "rows rows"]:
    """Which of `rows` packed queries (first axis) sees which key: true where both are in segment i.

    Rows behind the last boundary see each other: they make one more segment.
    """
    row = torch.arange(rows, device=segments.cu_seqlens_q.device)
    segment_of_query = torch.searchsorted(segments.cu_seqlens_q, row, right=True)
    segment_of_key = torch.searchsorted(segments.cu_seqlens_k, row, right=True)
    return segment_of_query.unsqueeze(1) == segment_of_key.unsqueeze(0)


def masked_attention(
    q: Float[Tensor, "S heads D"],
    k: Float[Tensor, "Sk heads D"],
    v: Float[Tensor, "Sk heads D"],
    mask: Bool[Tensor, "S Sk"],
) -> Float[Tensor, "S heads D"]:
    """Attention of each query over the keys that `mask` lets it see."""
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    return scaled_dot_product_attention(q, k, v, attn_mask=mask).squeeze(0).transpose(0, 1)
