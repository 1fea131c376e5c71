"""`npu_fused_infer_attention_score_v2` in TND layout: attention that needs no gradient."""

import torch
from torch import Tensor

from shapecheck._attention.kernels.npu_mask import BAND, Masking
from shapecheck._attention.kernels.npu_plan import Piece
from shapecheck._attention.kernels.npu_training import widen

_MAX_SHARE = 64
"""Query heads for one key head."""


def takes(q: Tensor, k: Tensor, v: Tensor, piece: Piece, masking: Masking) -> bool:
    """Whether the operator can take a piece, by its documentation in torch_npu 2.13.

    bfloat16; head dims of 128, or 192 with values of 192 or 128; at most 64 query heads a key head. Other head dims
    above 64 are padded to these; the training operator takes smaller ones without padding them to twice their size.
    Single queries ("Q_S = 1") ignore the band.
    """
    return (
        hasattr(torch.ops.npu, "npu_fused_infer_attention_score_v2")
        and q.dtype == torch.bfloat16
        and _widths(q.shape[2], v.shape[2]) is not None
        and q.shape[1] // k.shape[1] <= _MAX_SHARE
        and not (masking.sparse_mode == BAND and piece.longest_q == 1)
    )


def forward(q: Tensor, k: Tensor, v: Tensor, piece: Piece, masking: Masking, scale: float) -> tuple[Tensor, Tensor]:
    """Attention of one piece that `takes` agreed to: the result `[Tq, Hq, Dv]` and the log-sum-exp `[Hq, Tq]` float32.

    The operator wants the last end to be the number of rows, which holds for every piece.
    """
    widths = _widths(q.shape[2], v.shape[2])
    assert widths is not None
    out, lse = torch.ops.npu.npu_fused_infer_attention_score_v2(
        widen(q, widths[0]),
        widen(k, widths[0]),
        widen(v, widths[1]),
        atten_mask=masking.mask,
        actual_seq_qlen=piece.ends_q.tolist(),
        actual_seq_kvlen=piece.ends_k.tolist(),
        num_query_heads=q.shape[1],
        num_key_value_heads=k.shape[1],
        softmax_scale=scale,
        pre_tokens=masking.before,
        next_tokens=masking.ahead,
        input_layout="TND",
        sparse_mode=masking.sparse_mode,
        return_softmax_lse=True,
    )
    return out[..., : v.shape[2]].contiguous(), lse[..., 0].T.contiguous()


def _widths(head_dim: int, head_dim_v: int) -> tuple[int, int] | None:
    """Head dims of q and k, and of v, that the operator takes and that hold these."""
    largest = max(head_dim, head_dim_v)
    if 64 < largest <= 128:
        return 128, 128
    if 128 < largest <= 192:
        return 192, 128 if head_dim_v <= 128 else 192
    return None
