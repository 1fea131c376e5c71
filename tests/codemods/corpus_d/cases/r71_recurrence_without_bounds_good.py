from causal_conv1d import causal_conv1d_fn
from fla.ops.gated_delta_rule import chunk_gated_delta_rule
from torch import nn


class PackedDeltaNet(nn.Module):
    def forward(self, x, cu_seqlens=None, seq_idx=None):
        mixed = self.in_qkv(x).transpose(1, 2)
        mixed = causal_conv1d_fn(
            mixed,
            self.conv_weight,
            bias=None,
            activation="silu",
            seq_idx=seq_idx,
        )
        q, k, v = self.split_heads(mixed.transpose(1, 2))
        g, beta = self.gates(x)
        out, _ = chunk_gated_delta_rule(
            q,
            k,
            v,
            g=g,
            beta=beta,
            use_qk_l2norm_in_kernel=True,
            cu_seqlens=cu_seqlens,
        )
        return self.out_proj(self.norm(out, self.in_z(x)).flatten(-2))
