import torch
import torch.nn.functional as F
from flash_attn import flash_attn_varlen_func


def cross_attend_kept(pairs, to_q, to_kv, minimum):
    kept = [(query, memory) for query, memory in pairs if memory.shape[0] >= minimum]
    q_lens = torch.tensor([query.shape[0] for query, _ in kept])
    kv_lens = torch.tensor([memory.shape[0] for _, memory in kept])
    q = to_q(torch.cat([query for query, _ in kept]))
    k, v = to_kv(torch.cat([memory for _, memory in kept])).unbind(1)
    cu_q, cu_k = (F.pad(n.cumsum(0), (1, 0)).to(q.device, torch.int32) for n in (q_lens, kv_lens))
    return flash_attn_varlen_func(q, k, v, cu_q, cu_k, int(q_lens.max()), int(kv_lens.max()))
