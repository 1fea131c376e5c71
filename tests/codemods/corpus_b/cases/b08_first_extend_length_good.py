import torch


class ExtendMetadata:
    def __init__(self, device):
        self.device = device

    def build(self, extend_lens, prefix_lens):
        qo_lens = torch.tensor(extend_lens, dtype=torch.int32, device=self.device)
        kv_lens = qo_lens + torch.tensor(prefix_lens, dtype=torch.int32, device=self.device)
        self.cu_seqlens_q = torch.zeros(len(extend_lens) + 1, dtype=torch.int32, device=self.device)
        self.cu_seqlens_q[1:] = qo_lens.cumsum(0)
        self.cu_seqlens_k = torch.zeros_like(self.cu_seqlens_q)
        self.cu_seqlens_k[1:] = kv_lens.cumsum(0)
        self.max_seqlen_q = max(extend_lens)
        self.max_seqlen_k = int(kv_lens.max())
        return self
