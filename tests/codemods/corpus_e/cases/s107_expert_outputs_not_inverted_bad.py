import torch


class SortedExperts(torch.nn.Module):
    def forward(self, hidden, router_logits):
        batch, length, dim = hidden.shape
        x = hidden.reshape(-1, dim)
        gate, expert = router_logits.softmax(dim=-1).max(dim=-1)
        gate, expert = gate.flatten(), expert.flatten()
        by_expert = torch.argsort(expert, stable=True)
        sizes = torch.bincount(expert, minlength=len(self.experts)).tolist()
        parts = x[by_expert].split(sizes)
        out = torch.cat([mlp(part) for mlp, part in zip(self.experts, parts)])
        out = out[by_expert] * gate.unsqueeze(-1)
        return out.view(batch, length, dim)
