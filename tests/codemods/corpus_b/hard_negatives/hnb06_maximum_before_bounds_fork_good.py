from vllm.vllm_flash_attn import flash_attn_varlen_func


def prefill(query, key, value, meta, scale):
    return flash_attn_varlen_func(
        query,
        key,
        value,
        meta.max_query_len,
        meta.query_start_loc,
        meta.max_seq_len,
        meta.seq_start_loc,
        softmax_scale=scale,
        causal=True,
    )
