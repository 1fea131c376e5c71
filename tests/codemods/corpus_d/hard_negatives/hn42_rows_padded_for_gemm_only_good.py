import torch
from flash_attn import flash_attn_varlen_qkvpacked_func


class Fp8Attention(torch.nn.Module):
    def forward(self, x, cu_seqlens, max_seqlen):
        rows = x.shape[0]
        x = torch.nn.functional.pad(x, (0, 0, 0, -rows % 16))
        qkv = self.fp8_qkv(x)[:rows]
        qkv = qkv.unflatten(-1, (3, self.heads, -1))
        return flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, causal=True)
