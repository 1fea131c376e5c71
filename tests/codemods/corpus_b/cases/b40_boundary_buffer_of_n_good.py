import torch
from flash_attn import flash_attn_varlen_func


def attend_documents(q, k, v, doc_lens):
    cu_seqlens = torch.zeros(len(doc_lens) + 1, dtype=torch.int32, device=q.device)
    cu_seqlens[1:] = torch.tensor(doc_lens, device=q.device).cumsum(0)
    longest = max(doc_lens)
    return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, longest, longest, causal=True)
