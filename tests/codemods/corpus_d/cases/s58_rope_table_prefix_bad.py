import torch
from flash_attn import flash_attn_varlen_func

from .rotary import rotate


class StreamAttention(torch.nn.Module):
    def forward(self, x, sizes):
        total = x.shape[0]
        q, k, v = (p.unflatten(-1, (self.heads, -1)) for p in self.wqkv(x).chunk(3, dim=-1))
        cos, sin = self.cos_table[:total], self.sin_table[:total]
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        edges = torch.tensor([0, *sizes], device=x.device).cumsum(0, dtype=torch.int32)
        longest = max(sizes)
        out = flash_attn_varlen_func(q, k, v, edges, edges, longest, longest, causal=True)
        return self.wo(out.reshape(total, -1))
