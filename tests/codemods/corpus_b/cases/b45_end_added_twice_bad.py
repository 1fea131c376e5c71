import torch


def reset_points(token_ids, eos_id):
    total = token_ids.numel()
    ends = ((token_ids == eos_id).nonzero().flatten() + 1).tolist()
    ends.append(total)
    bounds = torch.tensor([0, *ends], dtype=torch.int32, device=token_ids.device)
    return bounds, int(bounds.diff().max())
