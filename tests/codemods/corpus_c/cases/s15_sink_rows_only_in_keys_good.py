import torch
import torch.nn.functional as F
from flash_attn import flash_attn_varlen_func


class SinkAttention(torch.nn.Module):
    def forward(self, q, k, v, lens):
        k = torch.cat([torch.cat([self.sink_k, part]) for part in k.split(lens)])
        v = torch.cat([torch.cat([self.sink_v, part]) for part in v.split(lens)])
        sizes = torch.tensor(lens, dtype=torch.int32, device=q.device)
        cu = F.pad(sizes.cumsum(0, dtype=torch.int32), (1, 0))
        extra = self.sink_k.shape[0]
        cu_k = F.pad((sizes + extra).cumsum(0, dtype=torch.int32), (1, 0))
        return flash_attn_varlen_func(
            q,
            k,
            v,
            cu_seqlens_q=cu,
            cu_seqlens_k=cu_k,
            max_seqlen_q=max(lens),
            max_seqlen_k=max(lens) + extra,
            causal=True,
        )
