import torch
from flash_attn import flash_attn_varlen_func


class Resampler(torch.nn.Module):
    def forward(self, media, media_lens):
        n, count = self.latents.shape[0], len(media_lens)
        q = self.to_q(self.latents.repeat(count, 1))
        rows = torch.cat([part for m in media.split(media_lens) for part in (m, self.latents)])
        k, v = self.to_kv(rows).chunk(2, dim=-1)
        cu_q = torch.arange(0, (count + 1) * n, n, dtype=torch.int32, device=media.device)
        sizes = torch.tensor(media_lens, device=media.device)
        cu_k = torch.nn.functional.pad((sizes + n).cumsum(0, dtype=torch.int32), (1, 0))
        q, k, v = (t.unflatten(-1, (self.heads, -1)) for t in (q, k, v))
        out = flash_attn_varlen_func(q, k, v, cu_q, cu_k, n, max(media_lens) + n)
        return self.out(out.flatten(1)).view(count, n, -1)
