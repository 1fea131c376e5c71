import torch


def ltor_inputs(tokens, eod, reset):
    batch, width = tokens.shape
    position_ids = torch.arange(width, device=tokens.device).repeat(batch, 1)
    mask = torch.ones(batch, width, width, device=tokens.device).tril()
    if not reset:
        return position_ids, mask
    for b in range(batch):
        prev = 0
        for i in (tokens[b] == eod).nonzero().flatten().tolist():
            mask[b, i + 1 :, : i + 1] = 0
            position_ids[b, i + 1 :] -= i + 1 - prev
            prev = i + 1
    return position_ids, mask
