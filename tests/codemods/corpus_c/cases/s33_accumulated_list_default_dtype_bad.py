from itertools import accumulate

import torch
from flash_attn import flash_attn_varlen_func


class PackedCrossBlock(torch.nn.Module):
    def forward(self, x, memory, x_sizes, memory_sizes):
        q = self.q(x).unflatten(-1, (self.heads, -1))
        k, v = self.kv(memory).unflatten(-1, (2, self.heads, -1)).unbind(1)
        cu_x = torch.tensor(list(accumulate(x_sizes, initial=0)), device=x.device)
        cu_m = torch.tensor(list(accumulate(memory_sizes, initial=0)), device=x.device)
        y = flash_attn_varlen_func(
            q,
            k,
            v,
            cu_seqlens_q=cu_x,
            cu_seqlens_k=cu_m,
            max_seqlen_q=max(x_sizes),
            max_seqlen_k=max(memory_sizes),
        )
        return x + self.o(y.flatten(1))
