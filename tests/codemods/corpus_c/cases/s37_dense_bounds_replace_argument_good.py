import torch
from flash_attn import flash_attn_varlen_qkvpacked_func
from torch import nn


class TextTowerAttention(nn.Module):
    def forward(self, x, cu_seqlens=None, max_seqlen=None):
        batch, width, _ = x.shape
        qkv = self.qkv(x).view(batch * width, 3, self.num_heads, self.head_dim)
        if cu_seqlens is None:
            cu_seqlens = torch.arange(0, (batch + 1) * width, width, dtype=torch.int32, device=x.device)
            max_seqlen = width
        out = flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, causal=True)
        return self.o_proj(out.reshape(batch, width, -1))
