import torch
import torch.nn.functional as F


def prune_visual_tokens(hidden, positions, cu_seqlens, scores, count):
    dropped = scores.topk(count, largest=False).indices
    owner = torch.searchsorted(cu_seqlens, dropped, right=True) - 1
    lens = cu_seqlens.diff() - torch.bincount(owner, minlength=cu_seqlens.numel() - 1)
    kept = torch.ones(hidden.shape[0], dtype=torch.bool, device=hidden.device)
    kept[dropped] = False
    hidden, positions = hidden[kept], positions[kept]
    return hidden, positions, F.pad(lens.cumsum(0), (1, 0)).to(torch.int32), int(lens.max())
