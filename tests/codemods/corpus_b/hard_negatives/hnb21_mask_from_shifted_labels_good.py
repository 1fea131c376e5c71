import torch


def next_token_targets(tokens, response_mask, cu_seqlens):
    labels = torch.where(response_mask.bool(), tokens, -100)
    labels = torch.roll(labels, -1)
    labels[cu_seqlens[1:].long() - 1] = -100
    loss_mask = labels != -100
    return labels, loss_mask, int(loss_mask.sum())
