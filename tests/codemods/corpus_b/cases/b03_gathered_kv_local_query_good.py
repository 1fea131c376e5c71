from flash_attn import flash_attn_varlen_func

from .comm import all_gather_rows


def encoder_attention(q, k, v, cu_seqlens, max_seqlen, group):
    rows = q.shape[0] // group.size()
    begin, end = group.rank() * rows, (group.rank() + 1) * rows
    q = q[begin:end]
    k = all_gather_rows(k, group)
    v = all_gather_rows(v, group)
    cu_seqlens_q = cu_seqlens.clamp(begin, end) - begin
    return flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens,
        max_seqlen_q=max_seqlen,
        max_seqlen_k=max_seqlen,
        causal=False,
    )
