import torch
from flash_attn import flash_attn_func, flash_attn_varlen_func


def segment_attention(q, k, v, lens):
    if len(set(lens)) == 1:
        n = lens[0]
        q, k, v = (t.unflatten(0, (-1, n)) for t in (q, k, v))
        return flash_attn_func(q, k, v, causal=True).flatten(0, 1)
    cu_seqlens = torch.tensor([0, *lens], dtype=torch.int32, device=q.device).cumsum(0, dtype=torch.int32)
    return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, max(lens), max(lens), causal=True)
