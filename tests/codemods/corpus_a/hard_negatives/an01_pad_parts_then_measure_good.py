import torch
import torch.nn.functional as F


def pack_aligned(samples, unit, pad_id, device):
    tokens, labels, seqlens = [], [], []
    for sample in samples:
        extra = -sample["tokens"].numel() % unit
        tokens.append(F.pad(sample["tokens"], (0, extra), value=pad_id))
        labels.append(F.pad(sample["labels"], (0, extra), value=-100))
        seqlens.append(tokens[-1].numel())
    cu_seqlens = torch.tensor([0, *seqlens], device=device).cumsum(0).to(torch.int32)
    return {
        "tokens": torch.cat(tokens).to(device),
        "labels": torch.cat(labels).to(device),
        "cu_seqlens": cu_seqlens,
        "max_seqlen": max(seqlens),
    }
