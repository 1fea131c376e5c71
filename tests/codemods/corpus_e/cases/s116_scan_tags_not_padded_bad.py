import torch
import torch.nn.functional as F
from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined


class StateSpaceMixer(torch.nn.Module):
    def forward(self, u, seq_idx):
        length = u.shape[1]
        extra = -length % self.chunk_size
        u = F.pad(u, (0, 0, 0, extra))
        x, b, c, dt = self.in_proj(u).split(self.sizes, dim=-1)
        x = x.unflatten(-1, (self.heads, -1))
        b, c = b.unsqueeze(2), c.unsqueeze(2)
        y = mamba_chunk_scan_combined(
            x,
            dt,
            -self.a_log.exp(),
            b,
            c,
            chunk_size=self.chunk_size,
            seq_idx=seq_idx,
        )
        return self.out_proj(y[:, :length].flatten(2))
