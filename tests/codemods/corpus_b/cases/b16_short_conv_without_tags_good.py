from causal_conv1d import causal_conv1d_fn
from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined
from torch import nn


class PackedMixer(nn.Module):
    def forward(self, hidden_states, seq_idx=None):
        gate, mixed, dt = self.in_proj(hidden_states).split(self.splits, dim=-1)
        mixed = causal_conv1d_fn(
            x=mixed.transpose(1, 2),
            weight=self.conv1d.weight.squeeze(1),
            bias=self.conv1d.bias,
            activation="silu",
            seq_idx=seq_idx,
        ).transpose(1, 2)
        x, b, c = mixed.split([self.inner, self.state, self.state], dim=-1)
        y = mamba_chunk_scan_combined(
            x.unflatten(-1, (self.heads, -1)),
            dt,
            -self.log_a.exp(),
            b.unsqueeze(2),
            c.unsqueeze(2),
            chunk_size=self.chunk,
            seq_idx=seq_idx,
            dt_softplus=True,
        )
        return self.out_proj(self.norm(y.flatten(-2), gate))
