import torch


def image_offsets(samples):
    counts = torch.tensor([len(s.get("images", ())) for s in samples])
    first = counts.cumsum(0) - counts
    grid = torch.cat([s["grid_thw"] for s in samples if s.get("images")])
    spans = [grid[f : f + n] for f, n in zip(first.tolist(), counts.tolist(), strict=True)]
    rows = [int(g.prod(-1).sum()) for g in spans]
    return spans, rows
