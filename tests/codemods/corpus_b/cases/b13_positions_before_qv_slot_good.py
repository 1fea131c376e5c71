from flash_attn.cute import flash_attn_varlen_func


class CuteBackend:
    def __init__(self, scale, window=(None, None)):
        self.scale = scale
        self.window = window

    def forward(self, q, k, v, meta, causal=True):
        out, lse = flash_attn_varlen_func(
            q,
            k,
            v,
            cu_seqlens_q=meta.cu_seqlens_q,
            cu_seqlens_k=meta.cu_seqlens_k,
            max_seqlen_q=meta.max_seqlen_q,
            max_seqlen_k=meta.max_seqlen_k,
            softmax_scale=self.scale,
            window_size=self.window,
            causal=causal,
        )
        return out, lse
