import torch
from xformers.ops import memory_efficient_attention
from xformers.ops.fmha import BlockDiagonalMask


class NestedBlock(torch.nn.Module):
    def forward(self, crops):
        counts = [crop.shape[0] for crop in crops]
        offsets = torch.tensor([0, *counts]).cumsum(0)
        x = torch.cat(crops).unsqueeze(0)
        bias = BlockDiagonalMask.from_seqlens(offsets.tolist())
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        x = x + self.proj(memory_efficient_attention(q, k, v, attn_bias=bias).flatten(2))
        return x[0, offsets[:-1]], bias.split(x)
