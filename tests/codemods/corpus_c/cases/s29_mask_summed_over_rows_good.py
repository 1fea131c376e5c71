import torch
from flash_attn import flash_attn_varlen_qkvpacked_func


class TokenMixer(torch.nn.Module):
    def forward(self, x, mask):
        keep = mask.bool()
        rows = x[keep]
        counts = mask.sum(dim=1)
        cu = torch.zeros(counts.numel() + 1, dtype=torch.int32, device=x.device)
        torch.cumsum(counts, dim=0, out=cu[1:])
        qkv = self.in_proj(rows).view(-1, 3, self.heads, self.width)
        y = flash_attn_varlen_qkvpacked_func(qkv, cu, int(counts.max()))
        out = torch.zeros_like(x)
        out[keep] = self.out_proj(y.flatten(1)).to(out.dtype)
        return out
