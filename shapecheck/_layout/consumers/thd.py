"""Megatron's `PackedSeqParams` and TransformerEngine's `thd` format."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shapecheck._layout._attend import Attention


def thd(pair: "Attention") -> dict[str, Any]:
    """`cu_seqlens_q`, `cu_seqlens_kv` (int32 [B + 1]), `max_seqlen_q`, `max_seqlen_kv` (rows), and two constants.

    The constants are `qkv_format="thd"` and `pad_between_seqs=False`: no rows lie between the segments.

    Source: megatron-core, megatron/core/packed_seq_params.py, `PackedSeqParams`.
    """
    return {
        "qkv_format": "thd",
        "cu_seqlens_q": pair.cu_seqlens_q,
        "cu_seqlens_kv": pair.cu_seqlens_k,
        "max_seqlen_q": pair.max_seqlen_q,
        "max_seqlen_kv": pair.max_seqlen_k,
        "pad_between_seqs": False,
    }
