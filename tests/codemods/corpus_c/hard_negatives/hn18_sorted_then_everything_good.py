import torch


def longest_first(samples):
    samples = sorted(samples, key=lambda s: len(s["ids"]), reverse=True)
    lens = [len(s["ids"]) for s in samples]
    starts = torch.tensor([0] + lens).cumsum(0)
    return {
        "ids": torch.cat([s["ids"] for s in samples]),
        "kinds": torch.cat([s["kinds"] for s in samples]),
        "positions": torch.cat([torch.arange(n) for n in lens]),
        "cu_seqlens": starts.to(torch.int32),
        "max_seqlen": lens[0],
    }
