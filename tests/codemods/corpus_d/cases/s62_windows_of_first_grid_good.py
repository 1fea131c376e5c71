import torch


class WindowedTower(torch.nn.Module):
    def forward(self, pixel_values, grid_thw):
        x = self.patch_embed(pixel_values)
        rope = self.rope(grid_thw)
        window_index, cu_window = self.partition(grid_thw, x.device)
        x, rope = x[window_index], rope[window_index]
        for layer in self.layers:
            x = layer(x, rotary=rope, cu_seqlens=cu_window)
        return self.norm(x)[torch.argsort(window_index)]
