import torch
import torch.nn as nn
import torch.nn.functional as F


class PatchTransformer(nn.Module):
    def forward(self, pixel_values, grid_thw):
        x = self.patch_embed(pixel_values)
        rope = self.rot_pos_emb(grid_thw)
        t, h, w = grid_thw.unbind(-1)
        cu_seqlens = F.pad(torch.repeat_interleave(h * w, t).cumsum(0, dtype=torch.int32), (1, 0))
        m = self.spatial_merge_size
        max_seqlen = int(((h // m) * (w // m)).max())
        for layer in self.layers:
            x = layer(x, cu_seqlens=cu_seqlens, max_seqlen=max_seqlen, rotary=rope)
        return self.merger(x)
