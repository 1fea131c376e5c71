import torch
import torch.nn.functional as F


def pack_for_context_parallel(samples, cp_size, pad_id, device):
    unit = 2 * cp_size
    tokens, labels, padded_lens = [], [], []
    for sample in samples:
        ids = sample["tokens"]
        ids = F.pad(ids, (0, -ids.numel() % unit), value=pad_id)
        tokens.append(ids)
        labels.append(sample["labels"])
        padded_lens.append(ids.numel())
    cu_seqlens_padded = F.pad(torch.tensor(padded_lens).cumsum(0), (1, 0)).to(device, torch.int32)
    return {
        "tokens": torch.cat(tokens).to(device),
        "labels": torch.cat(labels).to(device),
        "cu_seqlens_padded": cu_seqlens_padded,
        "max_seqlen": max(padded_lens),
    }
