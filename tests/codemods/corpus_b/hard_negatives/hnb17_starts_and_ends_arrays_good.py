import torch


class LastTokenPooler:
    def __init__(self, normalize=True):
        self.normalize = normalize

    def __call__(self, hidden, query_start_loc, num_reqs):
        starts = query_start_loc[:num_reqs]
        ends = query_start_loc[1 : num_reqs + 1]
        last = hidden[ends.long() - 1]
        first = hidden[starts.long()]
        pooled = torch.cat([first, last], dim=-1)
        return torch.nn.functional.normalize(pooled, dim=-1) if self.normalize else pooled
