import torch.nn.functional as F


def ulysses_inputs(tokens, labels, seq_lens, sp_size, sp_rank):
    pad = -tokens.numel() % sp_size
    tokens = F.pad(tokens, (0, pad))
    labels = F.pad(labels, (0, pad), value=-100)
    if pad:
        seq_lens = F.pad(seq_lens, (0, 1), value=pad)
    cu_seqlens = F.pad(seq_lens.cumsum(0), (1, 0)).int()
    return {
        "input_ids": tokens.chunk(sp_size)[sp_rank],
        "labels": labels.chunk(sp_size)[sp_rank],
        "cu_seqlens": cu_seqlens,
        "max_seqlen": int(seq_lens.max()),
    }
