"""xformers' block-diagonal biases."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shapecheck._layout._attend import Attention


def xformers(pair: "Attention") -> dict[str, Any]:
    """`q_seqlen`, `kv_seqlen`: rows of each segment, host ints, for `BlockDiagonalMask.from_seqlens`.

    A padding segment is one of them. Source: xformers 0.0.35, xformers/ops/fmha/attn_bias.py.
    """
    return {"q_seqlen": pair.segment_lengths_q, "kv_seqlen": pair.segment_lengths_k}
