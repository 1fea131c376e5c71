import torch.nn.functional as F


def split_for_ulysses(batch, group, pad_id):
    ids, labels = batch["input_ids"], batch["shift_labels"]
    positions = batch["position_ids"]
    visual_mask = batch["visual_pos_mask"]
    rest = -ids.shape[1] % group.size()
    if rest:
        ids = F.pad(ids, (0, rest), value=pad_id)
        labels = F.pad(labels, (0, rest), value=-100)
        positions = F.pad(positions, (0, rest))
        visual_mask = F.pad(visual_mask, (0, rest), value=False)
    width = ids.shape[1] // group.size()
    local = slice(group.rank() * width, (group.rank() + 1) * width)
    return {
        "input_ids": ids[:, local],
        "shift_labels": labels[:, local],
        "position_ids": positions[:, local],
        "visual_pos_mask": visual_mask[:, local],
    }
