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
        self._cu_seqlens = None
        self._longest = 0

    def forward(self, x, seqlens):
        if self._cu_seqlens is None or self._cu_seqlens.numel() != seqlens.numel() + 1:
            self._cu_seqlens = F.pad(seqlens.cumsum(0, dtype=torch.int32), (1, 0))
            self._longest = int(seqlens.max())
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1))
        out = flash_attn_varlen_qkvpacked_func(qkv, self._cu_seqlens, self._longest)
        return self.proj(out.flatten(1))
