import torch


class GroupedExperts(torch.nn.Module):
    def __init__(self, experts, top_k):
        super().__init__()
        self.experts = torch.nn.ModuleList(experts)
        self.top_k = top_k

    def forward(self, x, weights, chosen):
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=len(self.experts)).tolist()
        groups = x[order // self.top_k].split(counts)
        out = torch.cat([expert(g) for expert, g in zip(self.experts, groups)])
        inverse = order.argsort()
        out = out[inverse].view(x.shape[0], self.top_k, -1)
        return (out * weights[..., None]).sum(dim=1)
