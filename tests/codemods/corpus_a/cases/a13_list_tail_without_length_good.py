from itertools import accumulate

import torch


class ThdCollator:
    def __init__(self, pad_id, multiple):
        self.pad_id = pad_id
        self.multiple = multiple

    def __call__(self, samples):
        tokens, positions, seqlens = [], [], []
        for sample in samples:
            ids = sample["input_ids"]
            tokens += ids
            positions += range(len(ids))
            seqlens.append(len(ids))
        tail = -len(tokens) % self.multiple
        tokens += [self.pad_id] * tail
        positions += range(tail)
        if tail:
            seqlens.append(tail)
        return {
            "tokens": torch.tensor([tokens]),
            "position_ids": torch.tensor([positions]),
            "cu_seqlens": torch.tensor(list(accumulate(seqlens, initial=0)), dtype=torch.int32),
            "max_seqlen": max(seqlens),
        }
