import torch
import torch.distributed as dist


def gather_zigzag(local, cp_group):
    size = dist.get_world_size(cp_group)
    parts = [torch.empty_like(local) for _ in range(size)]
    dist.all_gather(parts, local.contiguous(), group=cp_group)
    chunks = []
    for part in parts:
        chunks.append(part.chunk(2, dim=1))
    front = [c[0] for c in chunks]
    back = [c[1] for c in reversed(chunks)]
    return torch.cat(front + back, dim=1)


def shard_zigzag(full, size, rank):
    pieces = full.chunk(2 * size, dim=1)
    return torch.cat([pieces[rank], pieces[2 * size - 1 - rank]], dim=1)
