import torch.nn.functional as F


class SequenceSplitter:
    def __init__(self, size, rank):
        self.size = size
        self.rank = rank

    def split(self, x, fill):
        x = F.pad(x, (0, -x.shape[-1] % self.size), value=fill)
        return x.chunk(self.size, dim=-1)[self.rank]

    def prepare(self, inputs):
        labels = F.pad(inputs["labels"][:, 1:], (0, 1), value=-100)
        loss_scale = F.pad(inputs["loss_scale"][:, 1:], (0, 1), value=0.0)
        return {
            "input_ids": self.split(inputs["input_ids"], 0),
            "position_ids": self.split(inputs["position_ids"], 0),
            "labels": self.split(labels, -100),
            "loss_scale": self.split(loss_scale, 0.0),
        }
