"""Hugging Face's flash attention kwargs."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shapecheck._layout._attend import Attention


def transformers(pair: "Attention") -> dict[str, Any]:
    """`cu_seq_lens_q`, `cu_seq_lens_k` (int32 [B + 1]), `max_length_q`, `max_length_k` (rows, host ints).

    Source: transformers 5.24.0, modeling_flash_attention_utils.py, `FlashAttentionKwargs`.
    """
    return {
        "cu_seq_lens_q": pair.cu_seqlens_q,
        "cu_seq_lens_k": pair.cu_seqlens_k,
        "max_length_q": pair.max_seqlen_q,
        "max_length_k": pair.max_seqlen_k,
    }
