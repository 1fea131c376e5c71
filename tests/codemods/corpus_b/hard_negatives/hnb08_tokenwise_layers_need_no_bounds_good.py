from torch import nn


class Block(nn.Module):
    def __init__(self, attention, mlp, width):
        super().__init__()
        self.attention = attention
        self.mlp = mlp
        self.norm_in = nn.RMSNorm(width)
        self.norm_out = nn.RMSNorm(width)

    def forward(self, hidden, cu_seqlens, max_seqlen):
        hidden = hidden + self.attention(self.norm_in(hidden), cu_seqlens=cu_seqlens, max_seqlen=max_seqlen)
        return hidden + self.mlp(self.norm_out(hidden))
