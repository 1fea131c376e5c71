import torch.nn.functional as F


def token_loss(model, batch, multiple, criterion):
    total = batch["input_ids"].shape[-1]
    pad = -total % multiple
    if pad:
        batch = dict(batch)
        for key, fill in (("input_ids", 0), ("labels", -100), ("position_ids", 0), ("response_mask", 0)):
            batch[key] = F.pad(batch[key], (0, pad), value=fill)
        batch["cu_seqlens"] = F.pad(batch["cu_seqlens"], (0, 1), value=total + pad)
        batch["max_seqlen"] = max(batch["max_seqlen"], pad)
    logits = model(
        batch["input_ids"],
        position_ids=batch["position_ids"],
        cu_seqlens=batch["cu_seqlens"],
        max_seqlen=batch["max_seqlen"],
    )
    losses = criterion(logits.flatten(0, 1), batch["labels"].flatten())
    return (losses * batch["response_mask"].flatten()).sum()
