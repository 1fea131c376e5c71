import torch
from fla.ops.gla import chunk_gla


class PackedGLA(torch.nn.Module):
    def forward(self, x, position_ids):
        q, k, v, g = self.in_proj(x).unflatten(-1, (4, self.heads, -1)).unbind(2)
        flat = position_ids.view(-1)
        cu_seqlens = (flat == 0).nonzero().view(-1)
        out, _ = chunk_gla(q, k, v, torch.nn.functional.logsigmoid(g), cu_seqlens=cu_seqlens)
        return self.out_proj(out.flatten(-2))
