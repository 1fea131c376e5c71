import torch
from flash_attn import flash_attn_varlen_func


class CompressedAttention(torch.nn.Module):
    def forward(self, x, sizes):
        q = self.to_q(x)
        pooled = [s.unflatten(0, (-1, self.ratio)).mean(1) for s in x.split(sizes)]
        k, v = self.to_kv(torch.cat(pooled)).chunk(2, dim=-1)
        edges = torch.tensor([0, *sizes], device=x.device).cumsum(0).int()
        return flash_attn_varlen_func(
            self.heads(q),
            self.heads(k),
            self.heads(v),
            cu_seqlens_q=edges,
            cu_seqlens_k=edges,
            max_seqlen_q=max(sizes),
            max_seqlen_k=max(sizes),
        )
