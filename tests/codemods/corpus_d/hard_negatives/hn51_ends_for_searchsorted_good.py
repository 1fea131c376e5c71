import torch


def segment_ids_from_lens(lens, total, device):
    ends = torch.as_tensor(lens, device=device).cumsum(0)
    rows = torch.arange(total, device=device)
    return torch.searchsorted(ends, rows, right=True)
