import torch
from flash_attn.flash_attn_interface import flash_attn_varlen_kvpacked_func


class LatentResampler(torch.nn.Module):
    def forward(self, latents, context, context_lens):
        batch, num_latents = latents.shape[:2]
        q = self.to_q(latents).view(batch * num_latents, self.heads, -1)
        kv = self.to_kv(context).view(context.shape[0], 2, self.heads, -1)
        cu_q = torch.arange(0, (batch + 1) * num_latents, num_latents, device=q.device, dtype=torch.int32)
        cu_k = torch.nn.functional.pad(context_lens.cumsum(0, dtype=torch.int32), (1, 0))
        out = flash_attn_varlen_kvpacked_func(q, kv, cu_q, cu_k, num_latents, int(context_lens.max()))
        return self.to_out(out.view(batch, num_latents, -1))
