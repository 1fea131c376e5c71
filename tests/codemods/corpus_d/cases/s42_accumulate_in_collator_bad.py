from itertools import accumulate

import torch


class FlatteningCollator:
    def __init__(self, ignore_index=-100):
        self.ignore_index = ignore_index

    def __call__(self, features):
        flat = {"input_ids": [], "labels": [], "position_ids": []}
        for f in features:
            ids = f["input_ids"]
            flat["input_ids"] += ids
            flat["labels"] += [self.ignore_index, *f["labels"][1:]]
            flat["position_ids"] += range(len(ids))
        sizes = [len(f["input_ids"]) for f in features]
        batch = {name: torch.tensor([values]) for name, values in flat.items()}
        ends = list(accumulate(sizes))
        batch["cu_seq_lens_q"] = batch["cu_seq_lens_k"] = torch.tensor(ends, dtype=torch.int32)
        batch["max_length_q"] = batch["max_length_k"] = max(sizes)
        return batch
