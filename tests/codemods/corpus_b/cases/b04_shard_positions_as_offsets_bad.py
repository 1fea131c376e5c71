import torch


def rank_inputs(input_ids, position_ids, cp_rank, cp_size):
    input_ids = input_ids.chunk(cp_size, dim=1)[cp_rank]
    position_ids = position_ids.chunk(cp_size, dim=1)[cp_rank]
    pos = position_ids.flatten()
    fresh = pos[1:] == 0
    lengths = torch.cat([pos[:1], pos[:-1][fresh] + 1, pos[-1:] + 1])
    cu_seqlens = lengths.cumsum(0, dtype=torch.int32)
    return input_ids, position_ids, cu_seqlens, int(lengths.max())
