from itertools import pairwise

import torch
import torch.nn.functional as F


class PackedMropeCollator:
    def __init__(self, rope_index, pad_token_id, pad_to_multiple_of=8):
        self.rope_index = rope_index
        self.pad_token_id = pad_token_id
        self.pad_to_multiple_of = pad_to_multiple_of

    def finish(self, features, edges):
        input_ids = features["input_ids"]
        pieces = [self.rope_index(input_ids[:, lo:hi]) for lo, hi in pairwise(edges)]
        position_ids = torch.cat(pieces, dim=-1)
        extra = -input_ids.shape[1] % self.pad_to_multiple_of
        input_ids = F.pad(input_ids, (0, extra), value=self.pad_token_id)
        labels = F.pad(features["labels"], (0, extra), value=-100)
        position_ids = F.pad(position_ids, (0, extra))
        attention_mask = F.pad(features["attention_mask"], (0, extra))
        return {
            "input_ids": input_ids,
            "labels": labels,
            "attention_mask": attention_mask,
            "position_ids": position_ids,
        }
