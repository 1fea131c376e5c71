import torch


def segment_of_token(lens):
    ends = lens.cumsum(0)
    total = int(ends[-1])
    token = torch.arange(total, device=lens.device)
    segment = torch.searchsorted(ends, token, right=True)
    position = token - (ends - lens)[segment]
    return segment, position
