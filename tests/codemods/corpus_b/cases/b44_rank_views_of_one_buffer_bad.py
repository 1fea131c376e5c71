import torch


def plan_micro_batches(groups, capacity, device):
    scratch = torch.zeros(capacity + 1, dtype=torch.int32, device=device)
    plans = []
    for lens in groups:
        n = len(lens)
        scratch[1 : n + 1] = torch.tensor(lens, device=device).cumsum(0)
        plans.append({"cu_seqlens": scratch[: n + 1], "max_seqlen": max(lens)})
    return plans
