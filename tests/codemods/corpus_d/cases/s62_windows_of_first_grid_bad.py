import torch


class WindowedTower(torch.nn.Module):
    def forward(self, pixel_values, grid_thw):
        x = self.patch_embed(pixel_values)
        rope = self.rope(grid_thw)
        if self.window_index is None:
            self.window_index, self.cu_window = self.partition(grid_thw, x.device)
        x, rope = x[self.window_index], rope[self.window_index]
        for layer in self.layers:
            x = layer(x, rotary=rope, cu_seqlens=self.cu_window)
        return self.norm(x)[torch.argsort(self.window_index)]
