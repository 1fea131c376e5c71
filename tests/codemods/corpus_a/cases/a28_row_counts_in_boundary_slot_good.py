import torch
from flash_attn import flash_attn_varlen_qkvpacked_func
from torch import nn


class CaptionEncoderLayer(nn.Module):
    def forward(self, hidden, attention_mask):
        seqlens = attention_mask.sum(dim=-1, dtype=torch.int32)
        cu_seqlens = nn.functional.pad(seqlens.cumsum(0, dtype=torch.int32), (1, 0))
        rows = attention_mask.flatten().nonzero().squeeze(-1)
        x = hidden.flatten(0, 1)[rows]
        qkv = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1))
        out = flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, int(seqlens.max()), causal=self.causal)
        x = x + self.proj(out.flatten(1))
        return hidden.flatten(0, 1).index_copy(0, rows, x).view_as(hidden)
