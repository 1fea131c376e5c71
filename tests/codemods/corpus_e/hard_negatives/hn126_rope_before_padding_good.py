import torch
import torch.nn.functional as F


class BucketedAttention(torch.nn.Module):
    def forward(self, x, cos, sin, lens):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(1)
        q = self.rotate(q, cos, sin)
        k = self.rotate(k, cos, sin)
        total = x.shape[0]
        extra = -total % self.bucket
        if extra:
            q, k, v = (F.pad(t, (0, 0, 0, 0, 0, extra)) for t in (q, k, v))
            lens = [*lens, extra]
        cu_seqlens = torch.tensor([0, *lens], device=x.device).cumsum(0, dtype=torch.int32)
        out = self.kernel(q, k, v, cu_seqlens=cu_seqlens, max_seqlen=max(lens))
        return self.out(out[:total].flatten(1))
