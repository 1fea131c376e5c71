import torch
from torch.utils.data import Dataset


class ProcessRewardDataset(Dataset):
    def __getitem__(self, i):
        enc = self.tokenizer(self.texts[i], max_length=self.max_length, truncation=True, return_tensors="pt")
        ids = enc["input_ids"][0]
        step_labels = self.step_labels[i]
        spots = (ids == self.step_token_id).nonzero().flatten()
        step_labels = step_labels[: spots.numel()]
        labels = torch.full_like(ids, -100)
        labels[spots] = torch.tensor(step_labels, dtype=ids.dtype)
        return {"input_ids": ids, "attention_mask": enc["attention_mask"][0], "labels": labels}
