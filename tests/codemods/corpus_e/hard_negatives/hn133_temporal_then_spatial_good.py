import torch
from einops import rearrange


class FactorizedBlock(torch.nn.Module):
    def forward(self, x, frames, patches):
        batch = x.shape[0] // (frames * patches)
        steps = torch.arange(batch * frames + 1, dtype=torch.int32, device=x.device)
        x = x + self.spatial(x, cu_seqlens=steps * patches, max_seqlen=patches)
        x = rearrange(x, "(b t n) d -> (b n t) d", b=batch, t=frames)
        steps = torch.arange(batch * patches + 1, dtype=torch.int32, device=x.device)
        x = x + self.temporal(x, cu_seqlens=steps * frames, max_seqlen=frames)
        return rearrange(x, "(b n t) d -> (b t n) d", b=batch, t=frames)
