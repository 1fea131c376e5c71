import torch
from torch.nn.utils.rnn import pad_sequence


def default_collate(instances, pad_index=0, ignore_index=-100):
    ids = [torch.LongTensor(e["input_ids"]) for e in instances]
    labels = [torch.LongTensor(e["labels"]) for e in instances]
    lengths = [len(i) for i in ids]
    ids = pad_sequence(ids, batch_first=True, padding_value=pad_index)
    labels = pad_sequence(labels, batch_first=True, padding_value=ignore_index)
    attention_mask = torch.zeros_like(ids).bool()
    for row, n in enumerate(lengths):
        attention_mask[row, :n] = True
    return {"input_ids": ids, "attention_mask": attention_mask, "labels": labels}
