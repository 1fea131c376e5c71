"""PyTorch's `torch.nn.attention.varlen.varlen_attn`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shapecheck._layout._attend import Attention


def varlen_attn(pair: "Attention") -> dict[str, Any]:
    """`cu_seq_q`, `cu_seq_k` (int32 [B + 1]), `max_q`, `max_k` (rows, host ints).

    Source: signature of torch 2.13, torch/nn/attention/varlen.py.
    """
    return {
        "cu_seq_q": pair.cu_seqlens_q,
        "cu_seq_k": pair.cu_seqlens_k,
        "max_q": pair.max_seqlen_q,
        "max_k": pair.max_seqlen_k,
    }
