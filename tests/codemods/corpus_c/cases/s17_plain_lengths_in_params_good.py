import torch
from megatron.core.packed_seq_params import PackedSeqParams


def thd_params(micro_batch, align):
    sizes = [-(-len(s["tokens"]) // align) * align for s in micro_batch]
    bounds = torch.tensor([0] + sizes, device="cuda").cumsum(0, dtype=torch.int32)
    return PackedSeqParams(
        qkv_format="thd",
        cu_seqlens_q=bounds,
        cu_seqlens_kv=bounds,
        max_seqlen_q=max(sizes),
        max_seqlen_kv=max(sizes),
    )
