def local_batch(batch, cp_rank, cp_size):
    out = dict(batch)
    width = batch["input_ids"].shape[1] // cp_size
    lo = cp_rank * width
    for name in ("input_ids", "position_ids"):
        out[name] = batch[name][:, lo : lo + width].contiguous()
    return out


def train_step(model, batch, cp_group, criterion):
    local = local_batch(batch, cp_group.rank(), cp_group.size())
    logits = model(local["input_ids"], position_ids=local["position_ids"])
    loss = criterion(logits.flatten(0, 1), local["labels"].flatten())
    return (loss * local["loss_mask"].flatten()).sum()
