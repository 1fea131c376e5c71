import torch


class ZigzagSharder:
    def __init__(self, cp_size, cp_rank):
        self.cp_size = cp_size
        self.cp_rank = cp_rank

    def shard(self, ids, targets, freqs_cis):
        n = 2 * self.cp_size
        head, tail = self.cp_rank, n - 1 - self.cp_rank
        a = ids.chunk(n, dim=1)
        b = targets.chunk(n, dim=1)
        ids = torch.cat([a[head], a[tail]], dim=1)
        targets = torch.cat([b[head], b[tail]], dim=1)
        c = freqs_cis.chunk(n, dim=0)
        freqs_cis = torch.cat([c[head], c[tail]], dim=0)
        return ids, targets, freqs_cis
