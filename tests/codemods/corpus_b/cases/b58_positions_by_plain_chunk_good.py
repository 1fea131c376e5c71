import torch


class ZigzagSharder:
    def __init__(self, world, rank):
        self.world = world
        self.rank = rank

    def take(self, x):
        parts = x.chunk(2 * self.world, dim=-1)
        return torch.cat([parts[self.rank], parts[2 * self.world - 1 - self.rank]], dim=-1)

    def __call__(self, batch):
        return {
            "input_ids": self.take(batch["input_ids"]),
            "labels": self.take(batch["labels"]),
            "position_ids": self.take(batch["position_ids"]),
        }
