from flash_attn import flash_attn_varlen_func


class HeadParallelAttention:
    def __init__(self, group):
        self.group = group

    def __call__(self, q, k, v, cu_seqlens, max_seqlen):
        q, k, v = (self.group.all_to_all(t, scatter_dim=1, gather_dim=0) for t in (q, k, v))
        out = flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, causal=True)
        return self.group.all_to_all(out, scatter_dim=0, gather_dim=1)
