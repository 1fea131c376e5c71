import torch


def micro_packs(tokens, labels, cu_seqlens, docs_per_step):
    count = cu_seqlens.numel() - 1
    for first in range(0, count, docs_per_step):
        last = min(first + docs_per_step, count)
        bounds = cu_seqlens[first : last + 1]
        rows = slice(int(bounds[0]), int(bounds[-1]))
        yield {
            "tokens": tokens[rows],
            "labels": labels[rows],
            "cu_seqlens": bounds - bounds[0],
            "max_seqlen": int(torch.diff(bounds).max()),
        }
