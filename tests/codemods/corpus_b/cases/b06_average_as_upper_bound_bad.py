from flash_attn import flash_attn_varlen_qkvpacked_func
from torch import nn


class PackedSelfAttention(nn.Module):
    def __init__(self, width, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, hidden, cu_seqlens):
        total, width = hidden.shape
        qkv = self.qkv(hidden).view(total, 3, self.num_heads, width // self.num_heads)
        max_seqlen = total // (cu_seqlens.numel() - 1)
        out = flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, causal=True)
        return self.proj(out.reshape(total, width))
