import torch.nn.functional as F
from megatron.core.packed_seq_params import PackedSeqParams


def thd_params(seq_lens, multiple):
    padded_lens = (seq_lens + multiple - 1) // multiple * multiple
    cu_valid = F.pad(seq_lens.cumsum(0), (1, 0)).int()
    cu_padded = F.pad(padded_lens.cumsum(0), (1, 0)).int()
    num_tokens = int(cu_valid[-1])
    longest = int(padded_lens.max())
    params = PackedSeqParams(
        qkv_format="thd",
        cu_seqlens_q=cu_valid,
        cu_seqlens_kv=cu_valid,
        cu_seqlens_q_padded=cu_padded,
        cu_seqlens_kv_padded=cu_padded,
        max_seqlen_q=longest,
        max_seqlen_kv=longest,
    )
    return params, num_tokens
