"""FlashAttention's `flash_attn_varlen_func`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shapecheck._layout._attend import Attention


def flash_attn(pair: "Attention") -> dict[str, Any]:
    """`cu_seqlens_q`, `cu_seqlens_k` (int32 [B + 1]), `max_seqlen_q`, `max_seqlen_k` (rows, host ints)."""
    return {
        "cu_seqlens_q": pair.cu_seqlens_q,
        "cu_seqlens_k": pair.cu_seqlens_k,
        "max_seqlen_q": pair.max_seqlen_q,
        "max_seqlen_k": pair.max_seqlen_k,
    }
