import torch
from flash_attn import flash_attn_varlen_func


class VarlenBackend:
    def forward(self, query, key, value, scale):
        bsz, q_len, heads, dim = query.shape
        step = torch.arange(0, (bsz + 1) * q_len, step=q_len, dtype=torch.int32, device=query.device)
        out = flash_attn_varlen_func(
            query.flatten(0, 1),
            key.flatten(0, 1),
            value.flatten(0, 1),
            cu_seqlens_q=step,
            cu_seqlens_k=step,
            max_seqlen_q=q_len,
            max_seqlen_k=key.size(1),
            softmax_scale=scale,
            causal=False,
        )
        return out.view(bsz, q_len, heads, dim)
