import torch.nn.functional as F


def shard_rmpad(ids_rmpad, position_ids_rmpad, sp_size, sp_rank):
    pad = -ids_rmpad.size(1) % sp_size
    if pad:
        ids_rmpad = F.pad(ids_rmpad, (0, pad), value=0)
    width = ids_rmpad.size(1) // sp_size
    mine = slice(sp_rank * width, (sp_rank + 1) * width)
    ids_local = ids_rmpad[:, mine]
    pos_local = position_ids_rmpad[:, mine]
    return ids_local, pos_local, pad
