import torch
from flash_attn import flash_attn_varlen_func


def chunked_prefill(q, k, v, q_lens, k_lens, rotate):
    q_pos = torch.cat([torch.arange(n_k - n_q, n_k) for n_q, n_k in zip(q_lens, k_lens)])
    k_pos = torch.cat([torch.arange(n_k) for n_k in k_lens])
    q, k = rotate(q, q_pos.to(q.device)), rotate(k, k_pos.to(k.device))
    cu_q = torch.tensor([0, *q_lens], device=q.device).cumsum(0, dtype=torch.int32)
    cu_k = torch.tensor([0, *k_lens], device=k.device).cumsum(0, dtype=torch.int32)
    return flash_attn_varlen_func(q, k, v, cu_q, cu_k, max(q_lens), max(k_lens), causal=True)
