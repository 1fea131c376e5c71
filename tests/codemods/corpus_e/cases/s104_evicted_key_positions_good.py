import torch


class CompressedCache:
    def __init__(self, capacity):
        self.capacity = capacity
        self.keys = self.values = self.key_positions = None

    def compress(self, attn_scores):
        if self.keys.shape[2] <= self.capacity:
            return
        importance = attn_scores.mean(dim=(1, 2))
        kept = importance.topk(self.capacity, dim=-1).indices.sort(dim=-1).values
        index = kept[:, None, :, None].expand(-1, self.keys.shape[1], -1, self.keys.shape[3])
        self.keys = self.keys.gather(2, index)
        self.values = self.values.gather(2, index)
        self.key_positions = self.key_positions.gather(1, kept)

    def bias(self, query_positions):
        visible = self.key_positions[:, None, :] <= query_positions[:, :, None]
        return torch.where(visible, 0.0, float("-inf"))[:, None]
