import torch
from flash_attn import flash_attn_varlen_qkvpacked_func


class PointCloudAttention(torch.nn.Module):
    def forward(self, clouds):
        x = torch.cat(clouds).cuda(non_blocking=True)
        counts = [c.shape[0] for c in clouds]
        cu_seqlens = torch.tensor([0, *counts], dtype=torch.int32).cumsum(0, dtype=torch.int32)
        qkv = self.qkv(x).reshape(x.shape[0], 3, self.heads, -1)
        out = flash_attn_varlen_qkvpacked_func(qkv.half(), cu_seqlens, max(counts))
        return self.proj(out.flatten(1).to(x.dtype))
