import torch
from flash_attn import flash_attn_varlen_func
from flash_attn.bert_padding import index_first_axis

from .padding import get_unpad_data


class TextConditionedAttention:
    def __init__(self, scale):
        self.scale = scale

    def forward_masked(self, query, key, value, key_mask):
        batch, q_len = query.shape[:2]
        indices, cu_seqlens, max_seqlen = get_unpad_data(key_mask)
        key = index_first_axis(key.flatten(0, 1), indices)
        value = index_first_axis(value.flatten(0, 1), indices)
        cu_seqlens_q = torch.arange(0, (batch + 1) * q_len, q_len, dtype=torch.int32, device=query.device)
        out = flash_attn_varlen_func(
            query.flatten(0, 1),
            key,
            value,
            cu_seqlens_q=cu_seqlens_q,
            cu_seqlens_k=cu_seqlens,
            max_seqlen_q=q_len,
            max_seqlen_k=max_seqlen,
            softmax_scale=self.scale,
        )
        return out.unflatten(0, (batch, q_len))
