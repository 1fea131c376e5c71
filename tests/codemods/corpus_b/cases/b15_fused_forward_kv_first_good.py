from transformer_engine.pytorch.cpp_extensions.fused_attn import fused_attn_fwd


def thd_forward(q, k, v, seqs_q, seqs_kv, dtype, backend, training):
    cu_seqlens_q, max_seqlen_q = seqs_q
    cu_seqlens_kv, max_seqlen_kv = seqs_kv
    out, aux, *_ = fused_attn_fwd(
        training,
        max_seqlen_q,
        max_seqlen_kv,
        cu_seqlens_q,
        cu_seqlens_kv,
        q,
        k,
        v,
        dtype,
        backend,
        qkv_layout="thd_thd_thd",
        attn_mask_type="padding_causal",
    )
    return out, aux
