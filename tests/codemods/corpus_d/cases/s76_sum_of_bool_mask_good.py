import torch
from torch.nn.attention.varlen import varlen_attn


def masked_encoder_attention(q, k, v, valid):
    keep = valid.flatten().nonzero().squeeze(1)
    sizes = valid.sum(dim=1)
    cu = torch.nn.functional.pad(sizes.cumsum(0, dtype=torch.int32), (1, 0))
    q, k, v = (t.flatten(0, 1)[keep] for t in (q, k, v))
    longest = int(sizes.max())
    packed = varlen_attn(q, k, v, cu_seq_q=cu, cu_seq_k=cu, max_q=longest, max_k=longest)
    out = packed.new_zeros(valid.numel(), *packed.shape[1:])
    out[keep] = packed
    return out.unflatten(0, valid.shape)
