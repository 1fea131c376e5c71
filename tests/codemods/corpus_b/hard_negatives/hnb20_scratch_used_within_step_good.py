import torch


class StepRunner:
    def __init__(self, model, limit, device):
        self.model = model
        self.bounds = torch.zeros(limit + 1, dtype=torch.int32, device=device)

    def run(self, steps):
        outputs = []
        for tokens, lens in steps:
            n = lens.numel()
            self.bounds[1 : n + 1] = lens.cumsum(0)
            hidden = self.model(tokens, cu_seqlens=self.bounds[: n + 1], max_seqlen=int(lens.max()))
            outputs.append(hidden[self.bounds[1 : n + 1].long() - 1])
        return outputs
