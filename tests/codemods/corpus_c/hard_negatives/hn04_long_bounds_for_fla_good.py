import torch
from fla.ops.gla import chunk_gla


def packed_gla(q, k, v, gate, doc_lens):
    ends = torch.tensor(doc_lens, device=q.device).cumsum(0)
    cu_seqlens = torch.cat([ends.new_zeros(1), ends])
    out, _ = chunk_gla(q, k, v, gate, cu_seqlens=cu_seqlens)
    return out
