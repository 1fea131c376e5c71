import torch
from torch.nn.utils.rnn import pad_sequence


class MultipackCollator:
    def __init__(self, pad_id):
        self.pad_id = pad_id

    def __call__(self, bins):
        ids, tags = [], []
        for docs in bins:
            ids.append(torch.cat(docs))
            tags.append(torch.cat([torch.full_like(d, i) for i, d in enumerate(docs, start=1)]))
        input_ids = pad_sequence(ids, batch_first=True, padding_value=self.pad_id)
        attention_mask = pad_sequence(tags, batch_first=True)
        position_ids = ((attention_mask > 0).cumsum(-1) - 1).clamp(min=0)
        return {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "position_ids": position_ids,
        }
