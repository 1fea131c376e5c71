import torch
from torch import nn
from torch.nn import functional as F


class JaggedAttention(nn.Module):
    def forward(self, x, lengths):
        offsets = F.pad(lengths.cumsum(0), (1, 0))
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(1, 0, 2, 3).contiguous()
        nested = [
            torch.nested.nested_tensor_from_jagged(t, offsets, max_seqlen=int(lengths.max())).transpose(1, 2)
            for t in (q, k, v)
        ]
        out = F.scaled_dot_product_attention(*nested)
        return self.proj(out.transpose(1, 2).values().flatten(1))
