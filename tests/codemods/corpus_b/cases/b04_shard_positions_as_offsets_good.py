import torch


def rank_inputs(input_ids, position_ids, cp_rank, cp_size):
    input_ids = input_ids.chunk(cp_size, dim=1)[cp_rank]
    position_ids = position_ids.chunk(cp_size, dim=1)[cp_rank]
    pos = position_ids.flatten()
    starts = (pos[1:] == 0).nonzero().flatten() + 1
    limits = [starts.new_zeros(1), starts, starts.new_tensor([pos.numel()])]
    cu_seqlens = torch.cat(limits).to(torch.int32)
    return input_ids, position_ids, cu_seqlens, int(cu_seqlens.diff().max())
