import torch


class PackedRotary(torch.nn.Module):
    def forward(self, x, cu_seqlens):
        position_ids = torch.arange(x.shape[0], device=x.device)
        starts = torch.repeat_interleave(cu_seqlens[:-1].long(), cu_seqlens.diff().long())
        position_ids = position_ids - starts
        angles = position_ids[:, None].float() * self.inv_freq
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
