import torch


def collect_scores(scorer, micro_batches, order, keep):
    scores = torch.cat([scorer(rows) for rows in micro_batches])
    scores = scores[torch.argsort(order)]
    return scores[keep], keep.nonzero().flatten()
