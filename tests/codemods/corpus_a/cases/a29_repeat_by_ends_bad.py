import torch
from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined


class PackedMambaMixer(torch.nn.Module):
    def forward(self, hidden, cu_seqlens):
        z, x, b, c, dt = self.in_proj(hidden).split(self.sizes, dim=-1)
        order = torch.arange(cu_seqlens.numel() - 1, dtype=torch.int32, device=hidden.device)
        seq_idx = torch.repeat_interleave(order, cu_seqlens[1:].long()).unsqueeze(0)
        y = mamba_chunk_scan_combined(
            x.unflatten(-1, (self.heads, -1)),
            dt,
            -self.a_log.float().exp(),
            b.unsqueeze(2),
            c.unsqueeze(2),
            chunk_size=self.chunk_size,
            D=self.skip,
            seq_idx=seq_idx,
        )
        return self.out_proj(self.norm(y.flatten(2), z))
