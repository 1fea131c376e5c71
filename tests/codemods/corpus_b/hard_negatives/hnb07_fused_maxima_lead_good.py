from transformer_engine.pytorch.cpp_extensions.fused_attn import fused_attn_fwd


def forward_thd(q, kv, seqs, padded, dtype, backend):
    k, v = kv.unbind(1)
    out, aux, *_ = fused_attn_fwd(
        True,
        seqs.max_q,
        seqs.max_kv,
        seqs.cu_q,
        seqs.cu_kv,
        q,
        k,
        v,
        dtype,
        backend,
        cu_seqlens_q_padded=padded.cu_q,
        cu_seqlens_kv_padded=padded.cu_kv,
        qkv_layout="thd_thd_thd",
        attn_mask_type="padding",
    )
    return out, aux
