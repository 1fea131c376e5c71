import torch
from flash_attn import flash_attn_varlen_qkvpacked_func


class SingleImageAttention(torch.nn.Module):
    def forward(self, x):
        rows = x.shape[0]
        cu_seqlens = torch.tensor([0, rows], dtype=torch.int32, device=x.device)
        qkv = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1))
        out = flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, rows)
        return x + self.proj(out.flatten(1))
