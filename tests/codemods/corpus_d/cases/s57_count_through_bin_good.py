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
        runs = [torch.cat([torch.arange(len(d)) for d in docs]) for docs in bins]
        position_ids = pad_sequence(runs, batch_first=True)
        return {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "position_ids": position_ids,
        }
