import torch


def shifted_targets(tokens, cu_seqlens, ignore_index=-100):
    targets = torch.roll(tokens, shifts=-1, dims=0)
    targets[cu_seqlens[1:].long() - 1] = ignore_index
    return targets
