import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence


class VLCollator:
    def __call__(self, rows):
        limit = self.tokenizer.model_max_length
        ids = pad_sequence([r["input_ids"] for r in rows], batch_first=True, padding_value=self.pad_id)
        labels = pad_sequence([r["labels"] for r in rows], batch_first=True, padding_value=-100)
        pos = [F.pad(r["position_ids"], (0, ids.shape[1] - r["position_ids"].shape[2]), value=1) for r in rows]
        position_ids = torch.cat(pos, dim=1)
        return {
            "input_ids": ids[:, :limit],
            "labels": labels[:, :limit],
            "position_ids": position_ids[:, :limit],
        }
