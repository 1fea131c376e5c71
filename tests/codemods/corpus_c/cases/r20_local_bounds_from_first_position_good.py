import torch


def varlen_args(position_ids):
    pos = position_ids.flatten()
    fresh = (pos[1:] == 0).nonzero().flatten() + 1
    cu_seqlens = torch.cat([fresh.new_zeros(1), fresh, fresh.new_tensor([pos.numel()])]).int()
    return cu_seqlens, int(cu_seqlens.diff().max())
