import torch
import torch.nn.functional as F
from megatron.core.packed_seq_params import PackedSeqParams


def build_thd(rows, lens, multiple):
    padded = [-(-n // multiple) * multiple for n in lens]
    tokens = torch.cat([F.pad(r, (0, p - r.numel())) for r, p in zip(rows, padded)])
    valid = F.pad(torch.tensor(lens).cumsum(0), (1, 0)).int()
    layout = F.pad(torch.tensor(padded).cumsum(0), (1, 0)).int()
    params = PackedSeqParams(
        qkv_format="thd",
        cu_seqlens_q=valid,
        cu_seqlens_kv=valid,
        cu_seqlens_q_padded=layout,
        cu_seqlens_kv_padded=layout,
        max_seqlen_q=max(padded),
        max_seqlen_kv=max(padded),
    )
    return tokens, params
