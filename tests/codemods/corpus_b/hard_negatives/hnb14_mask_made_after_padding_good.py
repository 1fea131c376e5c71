import torch.nn.functional as F


def pad_row(row, multiple):
    pad = -row["input_ids"].numel() % multiple
    for key, fill in (("input_ids", 0), ("labels", -100), ("position_ids", 0)):
        row[key] = F.pad(row[key], (0, pad), value=fill)
    row["loss_mask"] = (row["labels"] != -100).float()
    if pad:
        row["cu_seqlens"] = F.pad(row["cu_seqlens"], (0, 1), value=row["input_ids"].numel())
    row["max_seqlen"] = int(row["cu_seqlens"].diff().max())
    return row
