import torch
import torch.nn.functional as F


def unpad_metadata(attention_mask):
    valid = attention_mask.bool()
    lens = valid.sum(dim=1, dtype=torch.int32)
    rows = valid.flatten().nonzero().flatten()
    cu_seqlens = F.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))
    max_seqlen = int(valid.sum(dim=0).max())
    return rows, cu_seqlens, max_seqlen
