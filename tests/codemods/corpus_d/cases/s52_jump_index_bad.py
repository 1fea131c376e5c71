import torch


def flash_kwargs(position_ids):
    flat = position_ids.reshape(-1)
    total = flat.numel()
    jumps = torch.nonzero(torch.diff(flat) != 1).reshape(-1)
    edges = torch.zeros(jumps.numel() + 2, dtype=torch.int32, device=flat.device)
    edges[1:-1] = jumps
    edges[-1] = total
    longest = int(torch.diff(edges).max())
    return {
        "cu_seq_lens_q": edges,
        "cu_seq_lens_k": edges,
        "max_length_q": longest,
        "max_length_k": longest,
    }
