import torch
import torch.nn.functional as F
from flash_attn import flash_attn_varlen_func


class ExtendBackend:
    def forward_extend(self, q, k_all, v_all, new_lens, prefix_lens):
        ctx_lens = new_lens + prefix_lens
        qo_bounds = F.pad(new_lens.cumsum(0, dtype=torch.int32), (1, 0))
        kv_bounds = F.pad(ctx_lens.cumsum(0, dtype=torch.int32), (1, 0))
        max_new = int(new_lens.max())
        return flash_attn_varlen_func(
            q,
            k_all,
            v_all,
            cu_seqlens_q=qo_bounds,
            cu_seqlens_k=kv_bounds,
            max_seqlen_q=max_new,
            max_seqlen_k=max_new,
            causal=True,
        )
