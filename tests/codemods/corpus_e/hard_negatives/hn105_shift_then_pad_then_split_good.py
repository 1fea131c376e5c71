import torch
import torch.nn.functional as F


def prepare_sp_inputs(input_ids, labels, position_ids, sp_size, sp_rank):
    labels = F.pad(labels[:, 1:], (0, 1), value=-100)
    extra = -input_ids.shape[1] % sp_size
    if extra:
        input_ids = F.pad(input_ids, (0, extra))
        labels = F.pad(labels, (0, extra), value=-100)
        tail = torch.arange(extra, device=position_ids.device).expand(position_ids.shape[0], -1)
        position_ids = torch.cat([position_ids, tail], dim=1)
    local = input_ids.shape[1] // sp_size
    window = slice(sp_rank * local, (sp_rank + 1) * local)
    return input_ids[:, window], labels[:, window], position_ids[:, window]
