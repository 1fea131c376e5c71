import torch
from flash_attn import flash_attn_varlen_func


def attend_clips(q, k, v, clip_mask, ctx_mask):
    clip_lens = clip_mask.sum(dim=1)
    ctx_lens = ctx_mask.sum(dim=1)
    cu_clip = torch.cat([clip_lens.new_zeros(1), clip_lens.cumsum(0)]).to(torch.int32)
    cu_ctx = torch.cat([ctx_lens.new_zeros(1), ctx_lens.cumsum(0)]).to(torch.int32)
    return flash_attn_varlen_func(
        q[clip_mask],
        k[ctx_mask],
        v[ctx_mask],
        cu_seqlens_q=cu_clip,
        cu_seqlens_k=cu_ctx,
        max_seqlen_q=int(clip_lens.max()),
        max_seqlen_k=int(ctx_lens.max()),
    )
