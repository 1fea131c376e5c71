import numpy as np
import torch


class SampleStream:
    def __init__(self, dataset, budget):
        self.dataset = dataset
        self.budget = budget

    def pack(self, start):
        rows, lens = [], []
        for sample in self.dataset[start:]:
            if sum(lens) + len(sample) > self.budget:
                break
            rows.append(sample)
            lens.append(len(sample))
        tokens = np.concatenate(rows)
        bounds = np.concatenate([[0], np.cumsum(lens)]).astype(np.int32)
        return {"input_ids": torch.from_numpy(tokens), "cu_seqlens": torch.from_numpy(bounds)}
