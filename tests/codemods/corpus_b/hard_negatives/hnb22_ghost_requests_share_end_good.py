import torch


class GraphBounds:
    def __init__(self, slots, device):
        self.query_start_loc = torch.zeros(slots + 1, dtype=torch.int32, device=device)
        self.seq_lens = torch.zeros(slots, dtype=torch.int32, device=device)

    def fill(self, query_lens, seq_lens):
        n = query_lens.numel()
        ends = query_lens.cumsum(0)
        self.query_start_loc[1 : n + 1] = ends
        self.query_start_loc[n + 1 :] = ends[-1]
        self.seq_lens[:n] = seq_lens
        self.seq_lens[n:] = 0
        return self.query_start_loc, self.seq_lens
