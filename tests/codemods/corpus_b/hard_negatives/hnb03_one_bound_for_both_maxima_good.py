import torch
from flash_attn import flash_attn_varlen_func


def mixed_attention(q, k, v, q_lens, k_lens):
    cu_q = torch.nn.functional.pad(q_lens.cumsum(0, dtype=torch.int32), (1, 0))
    cu_k = torch.nn.functional.pad(k_lens.cumsum(0, dtype=torch.int32), (1, 0))
    longest = int(torch.maximum(q_lens.max(), k_lens.max()))
    return flash_attn_varlen_func(q, k, v, cu_q, cu_k, longest, longest)
