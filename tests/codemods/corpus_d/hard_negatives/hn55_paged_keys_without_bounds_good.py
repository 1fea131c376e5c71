import torch
from vllm.vllm_flash_attn import flash_attn_varlen_func


def paged_attention(q, k_cache, v_cache, meta, scale):
    page = k_cache.shape[1]
    out = torch.empty_like(q)
    flash_attn_varlen_func(
        q=q,
        k=k_cache,
        v=v_cache,
        out=out,
        cu_seqlens_q=meta.query_start_loc,
        max_seqlen_q=meta.max_query_len,
        seqused_k=meta.seq_lens,
        max_seqlen_k=meta.block_table.shape[1] * page,
        block_table=meta.block_table,
        softmax_scale=scale,
        causal=True,
    )
    return out
