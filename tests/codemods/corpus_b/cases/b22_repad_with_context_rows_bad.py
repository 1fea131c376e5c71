from flash_attn import flash_attn_varlen_func
from flash_attn.bert_padding import pad_input, unpad_input
from torch import nn


class CrossAttention(nn.Module):
    def forward(self, states, context, states_mask, context_mask):
        batch, length = states.shape[:2]
        q, rows_q, cu_q, max_q, *_ = unpad_input(self.to_q(states), states_mask)
        kv, rows_k, cu_k, max_k, *_ = unpad_input(self.to_kv(context), context_mask)
        q = q.unflatten(-1, (self.heads, -1))
        k, v = kv.unflatten(-1, (2, self.heads, -1)).unbind(1)
        out = flash_attn_varlen_func(q, k, v, cu_q, cu_k, max_q, max_k)
        out = pad_input(out.flatten(1), rows_k, batch, length)
        return self.to_out(out)
