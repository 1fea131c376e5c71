import torch
import torch.nn.functional as F
from flash_attn import flash_attn_varlen_func


def flash_forward(query, key, value, attention_mask=None, cu_seq_lens_q=None, max_length_q=None, **kwargs):
    batch, length = query.shape[:2]
    if cu_seq_lens_q is None and attention_mask is not None:
        rows = attention_mask.flatten().nonzero().flatten()
        lens = attention_mask.sum(-1, dtype=torch.int32)
        cu_seq_lens_q = F.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))
        max_length_q = int(lens.max())
    else:
        rows = torch.arange(batch * length, device=query.device)
    q, k, v = (x.flatten(0, 1)[rows] for x in (query, key, value))
    out = flash_attn_varlen_func(q, k, v, cu_seq_lens_q, cu_seq_lens_q, max_length_q, max_length_q, causal=True)
    full = out.new_zeros(batch * length, *out.shape[1:])
    return full.index_copy(0, rows, out).view(batch, length, -1)
