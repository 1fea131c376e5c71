import torch
import torch.nn.functional as F


def zigzag_shard(segments, cp_size, cp_rank):
    unit = 2 * cp_size
    segments = [F.pad(s, (0, 0, 0, -s.shape[0] % unit)) for s in segments]
    sizes = torch.tensor([s.shape[0] for s in segments], dtype=torch.int32)
    cu_seqlens = F.pad(sizes.cumsum(0, dtype=torch.int32), (1, 0))
    local = []
    for s in segments:
        parts = s.chunk(unit)
        local += [parts[cp_rank], parts[unit - 1 - cp_rank]]
    return torch.cat(local), cu_seqlens // cp_size, int(sizes.max()) // cp_size
