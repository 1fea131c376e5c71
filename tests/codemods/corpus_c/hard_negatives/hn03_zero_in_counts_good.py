import numpy as np
import torch


class TokenBatchCollator:
    def __call__(self, items):
        num_tokens = [0]
        ids, labels = [], []
        for item in items:
            ids.extend(item["input_ids"])
            labels.extend(item["labels"])
            num_tokens.append(len(item["input_ids"]))
        ends = np.cumsum(num_tokens)
        return {
            "input_ids": torch.tensor(ids)[None],
            "labels": torch.tensor(labels)[None],
            "cu_seqlens": torch.as_tensor(ends, dtype=torch.int32),
            "max_seqlen": max(num_tokens),
        }
