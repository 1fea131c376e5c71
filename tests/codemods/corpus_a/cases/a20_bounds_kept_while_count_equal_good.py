import torch
import torch.nn.functional as F
from flash_attn import flash_attn_varlen_qkvpacked_func
from torch import nn


class PackedSelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x, seqlens):
        cu_seqlens = F.pad(seqlens.cumsum(0, dtype=torch.int32), (1, 0))
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1))
        out = flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, int(seqlens.max()))
        return self.proj(out.flatten(1))
