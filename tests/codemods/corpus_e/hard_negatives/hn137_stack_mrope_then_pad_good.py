import torch
import torch.nn.functional as F


def collate_mrope(rows, pad_id, limit):
    width = min(max(r["input_ids"].numel() for r in rows), limit)
    ids, labels, positions = [], [], []
    for r in rows:
        gap = max(width - r["input_ids"].numel(), 0)
        ids.append(F.pad(r["input_ids"][:width], (0, gap), value=pad_id))
        labels.append(F.pad(r["labels"][:width], (0, gap), value=-100))
        positions.append(F.pad(r["position_ids"][:, :width], (0, gap), value=1))
    input_ids = torch.stack(ids)
    return {
        "input_ids": input_ids,
        "labels": torch.stack(labels),
        "position_ids": torch.stack(positions, dim=1),
        "attention_mask": input_ids.ne(pad_id),
    }
