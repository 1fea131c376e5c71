import torch


class WindowedTower(torch.nn.Module):
    def forward(self, x, grid_thw):
        rotary = self.rotary(grid_thw)
        index, window_sizes = self.window_layout(grid_thw)
        unit = self.merge**2
        rows = x.shape[0]
        x = x.view(rows // unit, unit, -1)[index].reshape(rows, -1)
        rotary = rotary.view(rows // unit, unit, -1)[index].reshape(rows, -1)
        cu_window = torch.zeros(len(window_sizes) + 1, dtype=torch.int32, device=x.device)
        cu_window[1:] = torch.tensor(window_sizes, device=x.device).mul(unit).cumsum(0)
        frames = torch.repeat_interleave(grid_thw[:, 1] * grid_thw[:, 2], grid_thw[:, 0])
        cu_full = torch.nn.functional.pad(frames.cumsum(0, dtype=torch.int32), (1, 0))
        for number, block in enumerate(self.blocks):
            bounds = cu_full if number in self.full_attention else cu_window
            x = block(x, cu_seqlens=bounds, rotary=rotary)
        return self.merger(x)[index.argsort()]
