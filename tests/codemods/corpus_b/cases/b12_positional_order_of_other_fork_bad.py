import torch
from flash_attn import flash_attn_varlen_func


class PrefixAttention(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, query, key, value, meta):
        return flash_attn_varlen_func(
            query,
            key,
            value,
            meta.query_start_loc,
            meta.max_query_len,
            meta.seq_start_loc,
            meta.max_seq_len,
            softmax_scale=self.scale,
            causal=True,
        )
