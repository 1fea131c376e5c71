from fla.modules import ShortConvolution
from fla.ops.gated_delta_rule import chunk_gated_delta_rule
from torch import nn


class HybridDeltaNet(nn.Module):
    def __init__(self, dim, kernel):
        super().__init__()
        self.q_conv = ShortConvolution(dim, kernel, activation="silu")
        self.k_conv = ShortConvolution(dim, kernel, activation="silu")
        self.v_conv = ShortConvolution(dim, kernel, activation="silu")

    def forward(self, h, cu_seqlens=None):
        q, _ = self.q_conv(self.q_proj(h), cu_seqlens=cu_seqlens)
        k, _ = self.k_conv(self.k_proj(h), cu_seqlens=cu_seqlens)
        v, _ = self.v_conv(self.v_proj(h), cu_seqlens=cu_seqlens)
        beta, g = self.b_proj(h).sigmoid(), self.decay(h)
        q, k, v = (t.unflatten(-1, (self.heads, -1)) for t in (q, k, v))
        o, _ = chunk_gated_delta_rule(q, k, v, g=g, beta=beta, cu_seqlens=cu_seqlens)
        return self.o_proj(o.flatten(-2))
