import torch
from flash_attn import flash_attn_varlen_kvpacked_func


class MemoryReader(torch.nn.Module):
    def forward(self, q, kv, q_lens, kv_lens):
        batch = q_lens.numel()
        bounds = torch.zeros(2, batch + 1, dtype=torch.int32, device=q.device)
        bounds[0, 1:] = q_lens.cumsum(0)
        bounds[1, 1:] = kv_lens.cumsum(0)
        return flash_attn_varlen_kvpacked_func(q, kv, bounds[0], bounds[1], int(q_lens.max()), int(kv_lens.max()))
