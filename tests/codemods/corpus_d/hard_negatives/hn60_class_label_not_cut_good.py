import torch
from torch.nn.utils.rnn import pad_sequence


class ClassificationCollator:
    def __init__(self, pad_id, limit):
        self.pad_id = pad_id
        self.limit = limit

    def __call__(self, rows):
        ids = [torch.tensor(r["input_ids"][: self.limit]) for r in rows]
        mask = [torch.tensor(r["attention_mask"][: self.limit]) for r in rows]
        return {
            "input_ids": pad_sequence(ids, batch_first=True, padding_value=self.pad_id),
            "attention_mask": pad_sequence(mask, batch_first=True),
            "labels": torch.tensor([r["labels"] for r in rows]),
        }
