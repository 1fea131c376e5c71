import torch


def to_local(batch, cp_group):
    world = torch.distributed.get_world_size(cp_group)
    rank = torch.distributed.get_rank(cp_group)
    input_ids = batch["input_ids"].chunk(world, dim=1)[rank]
    shift_labels = batch["shift_labels"].chunk(world, dim=1)[rank]
    rows = input_ids.shape[1]
    position_ids = torch.arange(rank * rows, (rank + 1) * rows, device=input_ids.device)
    return {
        "input_ids": input_ids,
        "shift_labels": shift_labels,
        "position_ids": position_ids.expand_as(input_ids),
    }
