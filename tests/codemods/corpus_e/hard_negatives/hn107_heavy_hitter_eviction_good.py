import torch


class HeavyHitterCache:
    def __init__(self, budget, recent):
        self.budget = budget
        self.recent = recent

    def evict(self, k, v, key_positions, scores):
        length = k.shape[2]
        if length <= self.budget:
            return k, v, key_positions
        older = scores[..., : length - self.recent].sum(dim=1)
        keep = older.topk(self.budget - self.recent, dim=-1).indices.sort(dim=-1).values
        tail = torch.arange(length - self.recent, length, device=k.device).expand(k.shape[0], -1)
        keep = torch.cat([keep, tail], dim=-1)
        index = keep[:, None, :, None].expand(-1, k.shape[1], -1, k.shape[3])
        return k.gather(2, index), v.gather(2, index), key_positions.gather(1, keep)
