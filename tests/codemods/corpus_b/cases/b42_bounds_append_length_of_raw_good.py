import torch


class PackingCollator:
    def __init__(self, max_len):
        self.max_len = max_len

    def __call__(self, samples):
        packed, labels, bounds = [], [], [0]
        for sample in samples:
            ids = sample["input_ids"][: self.max_len]
            packed.extend(ids)
            labels.extend(sample["labels"][: self.max_len])
            bounds.append(bounds[-1] + len(ids))
        return {
            "input_ids": torch.tensor(packed)[None],
            "labels": torch.tensor(labels)[None],
            "cu_seqlens": torch.tensor(bounds, dtype=torch.int32),
        }
