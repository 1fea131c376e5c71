import torch
from einops import rearrange


class VideoBlock(torch.nn.Module):
    def forward(self, x, batch, frames, patches):
        cu_space = torch.arange(0, (batch * frames + 1) * patches, patches, dtype=torch.int32, device=x.device)
        x = x + self.spatial_attn(self.norm1(x), cu_seqlens=cu_space, max_seqlen=patches)
        x = rearrange(x, "(b t n) c -> (b n t) c", b=batch, t=frames)
        cu_time = torch.arange(0, (batch * patches + 1) * frames, frames, dtype=torch.int32, device=x.device)
        x = x + self.temporal_attn(self.norm2(x), cu_seqlens=cu_time, max_seqlen=frames)
        x = rearrange(x, "(b n t) c -> (b t n) c", b=batch, t=frames)
        return x + self.mlp(self.norm3(x))
