import torch


def flatten_rows(hidden, position_ids):
    batch, length, width = hidden.shape
    total = batch * length
    starts = (position_ids.flatten() == 0).nonzero().flatten()
    cu_seqlens = torch.cat([starts, starts.new_tensor([total])]).to(torch.int32)
    return hidden.reshape(total, width), cu_seqlens, int(cu_seqlens.diff().max())
