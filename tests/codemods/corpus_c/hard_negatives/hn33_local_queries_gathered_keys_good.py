from ring_flash_attn import llama3_flash_attn_prepare_cu_seqlens, llama3_flash_attn_varlen_func


def gathered_attention(q, k, v, cu_seqlens, rank, world, group):
    cu_q, cu_k, max_q, max_k, k_slice = llama3_flash_attn_prepare_cu_seqlens(
        cu_seqlens, causal=True, rank=rank, world_size=world
    )
    return llama3_flash_attn_varlen_func(
        q,
        k,
        v,
        cu_q,
        cu_k,
        max_q,
        max_k,
        heads_k_stride=1,
        local_k_slice=k_slice,
        causal=True,
        group=group,
    )
