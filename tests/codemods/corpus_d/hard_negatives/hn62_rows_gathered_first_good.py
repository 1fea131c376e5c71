import torch
from torch.distributed.nn.functional import all_gather

from .attention import packed_attention


def gathered_forward(q, k, v, position_ids, group):
    q, k, v = (torch.cat(all_gather(t, group), dim=1) for t in (q, k, v))
    position_ids = torch.cat(all_gather(position_ids, group), dim=1)
    starts = torch.nonzero(position_ids.flatten() == 0).flatten()
    cu_seqlens = torch.cat([starts, starts.new_tensor([position_ids.numel()])]).to(torch.int32)
    longest = int(cu_seqlens.diff().max())
    return packed_attention(q, k, v, cu_seqlens=cu_seqlens, max_seqlen=longest)
