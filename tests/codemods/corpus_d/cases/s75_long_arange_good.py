import torch
from flash_attn import flash_attn_varlen_qkvpacked_func


class FrameAttention(torch.nn.Module):
    def forward(self, video):
        batch, frames, patches, _ = video.shape
        qkv = self.qkv(video).view(batch * frames * patches, 3, self.heads, self.head_dim)
        cu_seqlens = torch.arange(batch * frames + 1, dtype=torch.int32, device=video.device) * patches
        out = flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, patches)
        return self.proj(out.view(batch, frames, patches, -1))
