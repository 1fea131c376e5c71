import torch.nn.functional as F
from flash_attn import flash_attn_varlen_func


def captured_shape_attention(q, k, v, cu_seqlens, max_seqlen, capture_rows):
    rows = q.shape[0]
    q, k, v = (F.pad(t, (0, 0, 0, 0, 0, capture_rows - rows)) for t in (q, k, v))
    out = flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q=cu_seqlens,
        cu_seqlens_k=cu_seqlens,
        max_seqlen_q=max_seqlen,
        max_seqlen_k=max_seqlen,
    )
    return out[:rows]
