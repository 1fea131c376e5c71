import torch
import torch.nn.functional as F


class DocumentBuffer:
    def __init__(self, budget):
        self.budget = budget
        self.documents = []

    def push(self, document):
        self.documents.append(document)
        return sum(d.numel() for d in self.documents) >= self.budget

    def flush(self):
        lens = torch.tensor([d.numel() for d in self.documents])
        cu_seqlens = F.pad(lens.cumsum(0), (1, 0)).int()
        tokens = torch.cat(self.documents)[: self.budget]
        self.documents = []
        return {"tokens": tokens, "cu_seqlens": cu_seqlens, "max_seqlen": int(cu_seqlens.diff().max())}
