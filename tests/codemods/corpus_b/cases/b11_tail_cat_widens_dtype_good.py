import torch
from flash_attn import flash_attn_varlen_func


def attend_with_tail(q, k, v, seq_lens):
    cu_seqlens = torch.nn.functional.pad(seq_lens.cumsum(0), (1, 0)).to(torch.int32)
    longest = int(seq_lens.max())
    total = int(cu_seqlens[-1])
    if total < q.shape[0]:
        end = cu_seqlens.new_tensor([q.shape[0]])
        cu_seqlens = torch.cat([cu_seqlens, end])
        longest = max(longest, q.shape[0] - total)
    return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, longest, longest, causal=True)
