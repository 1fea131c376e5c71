import torch


class ShiftedPacker:
    def __init__(self, ignore_index=-100):
        self.ignore_index = ignore_index

    def __call__(self, samples):
        tokens, labels, positions = [], [], []
        for sample in samples:
            ids = sample["input_ids"]
            target = torch.roll(sample["labels"], -1)
            target[-1] = self.ignore_index
            tokens.append(ids)
            labels.append(target)
            positions.append(torch.arange(ids.numel()))
        return {
            "input_ids": torch.cat(tokens),
            "labels": torch.cat(labels),
            "position_ids": torch.cat(positions),
        }
