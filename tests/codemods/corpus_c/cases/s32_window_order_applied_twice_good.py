import torch


class WindowTower(torch.nn.Module):
    def forward(self, patches, grid_thw):
        order, window_cu = self.window_order(grid_thw)
        x = self.patch_embed(patches)
        n = x.shape[0] // self.unit
        x = x.view(n, self.unit, -1)[order].flatten(0, 1)
        rope = self.rope(grid_thw).view(n, self.unit, -1)[order].flatten(0, 1)
        for blk in self.blocks:
            x = blk(x, cu_seqlens=window_cu, rotary=rope)
        merged = self.merger(x)
        return merged[torch.argsort(order)]
