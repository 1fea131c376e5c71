import torch
from torch.nn.utils.rnn import pad_sequence


class CompletionCollator:
    def __call__(self, examples):
        cut = slice(-self.max_length, None) if self.mode == "keep_end" else slice(None, self.max_length)
        ids = [torch.tensor(e["input_ids"][cut]) for e in examples]
        labels = [torch.tensor(e.get("labels", e["input_ids"])[cut]) for e in examples]
        completion = [torch.tensor(e["completion_mask"]) for e in examples]
        batch = {
            "input_ids": pad_sequence(ids, batch_first=True, padding_value=self.pad_id),
            "labels": pad_sequence(labels, batch_first=True, padding_value=-100),
        }
        completion = pad_sequence(completion, batch_first=True)
        batch["labels"] = batch["labels"].masked_fill(completion == 0, -100)
        return batch
