from transformer_engine.pytorch.attention.rope import apply_rotary_pos_emb


def thd_attention(core, q, k, v, freqs, meta):
    q = apply_rotary_pos_emb(q, freqs, tensor_format="thd", cu_seqlens=meta.cu_padded)
    k = apply_rotary_pos_emb(k, freqs, tensor_format="thd", cu_seqlens=meta.cu_padded)
    return core(
        q,
        k,
        v,
        qkv_format="thd",
        attn_mask_type="padding_causal",
        cu_seqlens_q=meta.cu_valid,
        cu_seqlens_kv=meta.cu_valid,
        cu_seqlens_q_padded=meta.cu_padded,
        cu_seqlens_kv_padded=meta.cu_padded,
        max_seqlen_q=meta.longest,
        max_seqlen_kv=meta.longest,
        pad_between_seqs=True,
    )
