import torch


def pack_longest_first(samples):
    longest = max(s["input_ids"].numel() for s in samples)
    samples = sorted(samples, key=lambda s: -s["input_ids"].numel())
    tokens = torch.cat([s["input_ids"] for s in samples])
    sizes = torch.tensor([s["input_ids"].numel() for s in samples])
    cu_seqlens = torch.nn.functional.pad(sizes.cumsum(0, dtype=torch.int32), (1, 0))
    return {"tokens": tokens, "cu_seqlens": cu_seqlens, "max_seqlen": longest}
