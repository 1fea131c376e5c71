import torch
from flash_attn import flash_attn_varlen_func


def prefill(q, k, v, prompts, scale):
    seqlens = torch.tensor([len(p) for p in prompts], dtype=torch.int32, device=q.device)
    cu_seqlens = torch.nn.functional.pad(torch.cumsum(seqlens, dim=0), (1, 0))
    longest = int(seqlens.max())
    return flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q=cu_seqlens,
        cu_seqlens_k=cu_seqlens,
        max_seqlen_q=longest,
        max_seqlen_k=longest,
        softmax_scale=scale,
        causal=True,
    )
