import torch.nn.functional as F


def sequence_parallel_loss(model, batch, sp_size, sp_rank):
    input_ids, labels, loss_scale = batch["input_ids"], batch["labels"], batch["loss_scale"]
    extra = -input_ids.shape[1] % sp_size
    input_ids = F.pad(input_ids, (0, extra))
    labels = F.pad(labels[:, 1:], (0, extra + 1), value=-100)
    loss_scale = F.pad(loss_scale[:, 1:], (0, extra + 1))
    position_ids = F.pad(batch["position_ids"], (0, extra))
    input_ids = input_ids.chunk(sp_size, dim=1)[sp_rank]
    position_ids = position_ids.chunk(sp_size, dim=1)[sp_rank]
    labels = labels.chunk(sp_size, dim=1)[sp_rank]
    loss_scale = loss_scale.chunk(sp_size, dim=1)[sp_rank]
    logits = model(input_ids, position_ids=position_ids).logits
    loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="none")
    return (loss * loss_scale.flatten()).sum()
