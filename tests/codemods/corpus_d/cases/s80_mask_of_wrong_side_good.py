import torch.nn.functional as F


class SftLoss:
    def __call__(self, model, batch):
        ids, loss_mask = batch["input_ids"], batch["loss_mask"]
        logits = model(input_ids=ids, position_ids=batch["position_ids"]).logits
        logits = logits[:, :-1].flatten(0, 1)
        targets = ids[:, 1:].flatten()
        weights = loss_mask[:, 1:].flatten().float()
        losses = F.cross_entropy(logits, targets, reduction="none")
        return (losses * weights).sum() / weights.sum().clamp(min=1)
