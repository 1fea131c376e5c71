import xformers.ops as xops
from torch import nn
from xformers.ops.fmha.attn_bias import BlockDiagonalCausalMask


class PackedCausalAttention(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.dropout = dropout

    def forward(self, q, k, v, seqlens):
        bias = BlockDiagonalCausalMask.from_seqlens(seqlens)
        return xops.memory_efficient_attention(q, k, v, attn_bias=bias, p=self.dropout)
