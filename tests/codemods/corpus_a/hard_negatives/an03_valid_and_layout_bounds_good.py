import torch.nn.functional as F
from megatron.core.packed_seq_params import PackedSeqParams


def thd_params(seqlens, align):
    layout = (seqlens + align - 1) // align * align
    cu_seqlens = F.pad(seqlens.cumsum(0), (1, 0)).int()
    cu_seqlens_padded = F.pad(layout.cumsum(0), (1, 0)).int()
    max_seqlen = int(layout.max())
    return PackedSeqParams(
        qkv_format="thd",
        cu_seqlens_q=cu_seqlens,
        cu_seqlens_kv=cu_seqlens,
        cu_seqlens_q_padded=cu_seqlens_padded,
        cu_seqlens_kv_padded=cu_seqlens_padded,
        max_seqlen_q=max_seqlen,
        max_seqlen_kv=max_seqlen,
    )
