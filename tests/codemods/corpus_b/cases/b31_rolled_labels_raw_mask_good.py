def shifted_targets(batch, cu_seqlens):
    last = cu_seqlens[1:].long() - 1
    labels = batch["tokens"].roll(-1)
    advantages = batch["advantages"].roll(-1)
    loss_mask = batch["loss_mask"].roll(-1)
    labels[last] = -100
    advantages[last] = 0.0
    loss_mask[last] = 0
    return {
        "tokens": batch["tokens"],
        "labels": labels,
        "advantages": advantages,
        "loss_mask": loss_mask,
        "cu_seqlens": cu_seqlens,
    }
