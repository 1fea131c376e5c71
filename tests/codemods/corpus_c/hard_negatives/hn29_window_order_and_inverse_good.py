import torch
from torch import nn


class LocalWindowEncoder(nn.Module):
    def forward(self, x, freqs, window_index, window_sizes):
        back = torch.empty_like(window_index)
        back[window_index] = torch.arange(window_index.numel(), device=x.device)
        cu_window = torch.zeros(len(window_sizes) + 1, dtype=torch.int32, device=x.device)
        cu_window[1:] = torch.cumsum(window_sizes, 0)
        x, freqs = x[window_index], freqs[window_index]
        for block in self.blocks:
            x = x + block(x, freqs=freqs, cu_seqlens=cu_window)
        return self.norm(x)[back]
