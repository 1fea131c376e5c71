import torch
from flash_attn import flash_attn_varlen_func


class FramePromptAttention(torch.nn.Module):
    def forward(self, frames, prompts):
        batch, count, patches, _ = frames.shape
        prompts = [p for p in prompts for _ in range(count)]
        sizes = torch.tensor([p.shape[0] for p in prompts], device=frames.device)
        q = self.to_q(frames).view(batch * count * patches, self.heads, -1)
        k, v = self.to_kv(torch.cat(prompts)).unflatten(-1, (2, self.heads, -1)).unbind(1)
        cu_q = torch.arange(batch * count + 1, dtype=torch.int32, device=q.device) * patches
        cu_k = torch.nn.functional.pad(sizes.cumsum(0, dtype=torch.int32), (1, 0))
        out = flash_attn_varlen_func(q, k, v, cu_q, cu_k, patches, int(sizes.max()))
        return self.proj(out.view(batch, count, patches, -1))
