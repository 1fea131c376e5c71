import torch
import torch.nn.functional as F
from fla.ops.gated_delta_rule import chunk_gated_delta_rule


class DeltaLayer(torch.nn.Module):
    def forward(self, q, k, v, g, beta, seqlens):
        cu_seqlens_cpu = F.pad(seqlens.cumsum(0), (1, 0))
        cu_seqlens = cu_seqlens_cpu.to(q.device, non_blocking=True)
        cu_seqlens = cu_seqlens.to(torch.int64).contiguous()
        out, _ = chunk_gated_delta_rule(
            q,
            k,
            v,
            g=g,
            beta=beta,
            cu_seqlens=cu_seqlens,
            cu_seqlens_cpu=cu_seqlens_cpu,
        )
        return out
