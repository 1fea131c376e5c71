import torch


def left_align(ids, attention_mask, pad_id):
    invalid = ~attention_mask.bool()
    out = ids.masked_fill(invalid, pad_id)
    shift = invalid.sum(dim=1)
    column = torch.arange(ids.shape[1], device=ids.device)
    out = out.gather(1, (column + shift[:, None]) % ids.shape[1])
    last = out[:, -1 - torch.arange(4, device=ids.device)]
    return out, last, (~attention_mask.bool()).flatten().nonzero().flatten()
