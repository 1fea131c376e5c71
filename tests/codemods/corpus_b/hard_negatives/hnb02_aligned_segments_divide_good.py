import torch
import torch.nn.functional as F


def zigzag_rows(documents, cp_size, cp_rank):
    align = 2 * cp_size
    padded = [F.pad(d, (0, -d.numel() % align)) for d in documents]
    lens = torch.tensor([d.numel() for d in padded])
    cu_padded = F.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))
    local = []
    for doc in padded:
        chunks = doc.chunk(align)
        local += [chunks[cp_rank], chunks[align - 1 - cp_rank]]
    return torch.cat(local), cu_padded // cp_size, int(lens.max()) // cp_size
