import torch
from torch import nn


class PatchTower(nn.Module):
    def forward(self, patches, grid_thw):
        per_frame = torch.repeat_interleave(grid_thw[:, 1] * grid_thw[:, 2], grid_thw[:, 0])
        cu_frames = nn.functional.pad(per_frame.cumsum(0, dtype=torch.int32), (1, 0))
        order, cu_windows = self.partition(grid_thw)
        longest = int((cu_windows[1:] - cu_windows[:-1]).max())
        x = self.embed(patches)[order]
        for depth, block in enumerate(self.blocks):
            if depth in self.global_depths:
                x = block(x, cu_seqlens=cu_frames, max_seqlen=longest)
            else:
                x = block(x, cu_seqlens=cu_windows, max_seqlen=longest)
        return x[torch.argsort(order)]
