import torch
import torch.nn.functional as F


class VisionWithMerger(torch.nn.Module):
    def forward(self, x, grid_thw):
        t, h, w = grid_thw.unbind(-1)
        frame = torch.repeat_interleave(h * w, t)
        cu_seqlens = F.pad(frame.cumsum(0, dtype=torch.int32), (1, 0))
        longest = int(frame.max())
        for block in self.blocks:
            x = block(x, cu_seqlens=cu_seqlens, max_seqlen=longest)
        unit = self.merge_size**2
        merged = self.mlp(x.unflatten(0, (-1, unit)).flatten(1))
        return merged, cu_seqlens // unit
