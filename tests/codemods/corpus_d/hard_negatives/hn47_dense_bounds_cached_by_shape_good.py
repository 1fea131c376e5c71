import functools

import torch


@functools.lru_cache(maxsize=32)
def dense_bounds(batch, length, device):
    return torch.arange(0, (batch + 1) * length, length, dtype=torch.int32, device=device)


class PerFrameAttention(torch.nn.Module):
    def forward(self, x):
        batch, length, _ = x.shape
        cu_seqlens = dense_bounds(batch, length, x.device)
        return self.attn(x.flatten(0, 1), cu_seqlens=cu_seqlens, max_seqlen=length).unflatten(0, (batch, length))
