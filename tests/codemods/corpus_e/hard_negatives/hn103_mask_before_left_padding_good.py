import torch
import torch.nn.functional as F


def left_pad(rows, pad_id):
    width = max(r.numel() for r in rows)
    ids, mask = [], []
    for r in rows:
        gap = width - r.numel()
        m = torch.ones_like(r)
        ids.append(F.pad(r, (gap, 0), value=pad_id))
        mask.append(F.pad(m, (gap, 0)))
    ids = torch.stack(ids)
    mask = torch.stack(mask)
    position_ids = (mask.cumsum(-1) - 1).clamp(min=0)
    return {"input_ids": ids, "attention_mask": mask, "position_ids": position_ids}
