import torch


def varlen_args(position_ids):
    pos = position_ids.flatten()
    fresh = (pos == 0)[1:]
    sizes = torch.cat([pos[:1], pos[:-1][fresh] + 1, pos[-1:] + 1])
    cu_seqlens = sizes.cumsum(0, dtype=torch.int32)
    return cu_seqlens, int(sizes.max())
