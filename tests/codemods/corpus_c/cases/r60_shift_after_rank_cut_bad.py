import torch.nn.functional as F


def next_token_loss(model, batch, cp):
    ids = batch["input_ids"].chunk(cp.size, dim=1)[cp.rank]
    pos = batch["position_ids"].chunk(cp.size, dim=1)[cp.rank]
    labels = batch["labels"].chunk(cp.size, dim=1)[cp.rank]
    targets = F.pad(labels[:, 1:], (0, 1), value=-100)
    logits = model(ids, position_ids=pos)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
    return loss / batch["num_targets"]
