import torch
import torch.nn.functional as F
from flash_attn import flash_attn_varlen_func


class SinkAttention(torch.nn.Module):
    def forward(self, q, k, v, lens):
        k = torch.cat([torch.cat([self.sink_k, part]) for part in k.split(lens)])
        v = torch.cat([torch.cat([self.sink_v, part]) for part in v.split(lens)])
        sizes = torch.tensor(lens, dtype=torch.int32, device=q.device)
        cu = F.pad(sizes.cumsum(0, dtype=torch.int32), (1, 0))
        longest = max(lens)
        return flash_attn_varlen_func(
            q,
            k,
            v,
            cu_seqlens_q=cu,
            cu_seqlens_k=cu,
            max_seqlen_q=longest,
            max_seqlen_k=longest,
            causal=True,
        )
