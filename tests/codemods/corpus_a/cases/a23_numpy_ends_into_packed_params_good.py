import numpy as np
import torch
from megatron.core.packed_seq_params import PackedSeqParams


def build_packed_batch(documents, device):
    tokens = torch.from_numpy(np.concatenate(documents)).to(device)
    seqlens = np.array([document.size for document in documents], dtype=np.int32)
    cu_seqlens = torch.from_numpy(np.insert(np.cumsum(seqlens, dtype=np.int32), 0, 0)).to(device)
    params = PackedSeqParams(
        qkv_format="thd",
        cu_seqlens_q=cu_seqlens,
        cu_seqlens_kv=cu_seqlens,
        max_seqlen_q=int(seqlens.max()),
        max_seqlen_kv=int(seqlens.max()),
    )
    return tokens.unsqueeze(0), params
