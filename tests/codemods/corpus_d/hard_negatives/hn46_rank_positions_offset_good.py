import torch


def local_batch(input_ids, shift_labels, world, rank):
    rows = input_ids.shape[1] // world
    first = rank * rows
    position_ids = first + torch.arange(rows, device=input_ids.device)
    return {
        "input_ids": input_ids.narrow(1, first, rows),
        "shift_labels": shift_labels.narrow(1, first, rows),
        "position_ids": position_ids[None],
    }
