import torch
from flash_attn import flash_attn_varlen_kvpacked_func


def append_attention(q, kv_cache, tables, new_lens, past_lens):
    past = kv_cache[tables]
    kv = torch.cat([row[: p + n] for row, p, n in zip(past, past_lens, new_lens, strict=True)])
    q_lens = torch.tensor(new_lens, dtype=torch.int32, device=q.device)
    kv_lens = q_lens + torch.tensor(past_lens, dtype=torch.int32, device=q.device)
    cu_q = torch.nn.functional.pad(q_lens.cumsum(0, dtype=torch.int32), (1, 0))
    cu_kv = torch.nn.functional.pad(kv_lens.cumsum(0, dtype=torch.int32), (1, 0))
    longest = int(q_lens.max())
    return flash_attn_varlen_kvpacked_func(q, kv, cu_q, cu_kv, longest, int(kv_lens.max()), causal=True)
