import torch


def trim_single(ids, attention_mask, position_ids):
    if ids.shape[0] != 1:
        raise ValueError(f"expected one packed row, got {ids.shape[0]}")
    keep = attention_mask[0].bool()
    ids, position_ids = ids[:, keep], position_ids[:, keep]
    starts = (position_ids[0] == 0).nonzero().flatten()
    cu_seqlens = torch.cat([starts, starts.new_tensor([ids.shape[1]])]).int()
    return ids, position_ids, cu_seqlens
