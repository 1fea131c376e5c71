import torch


class ExtendBatch:
    def __init__(self, prefix_lens, new_ids):
        self.prefix_lens = prefix_lens
        self.new_ids = new_ids

    def prepare(self, device):
        extend = [len(ids) for ids in self.new_ids]
        seq_lens = [p + n for p, n in zip(self.prefix_lens, extend)]
        positions = torch.cat([torch.arange(p, s) for p, s in zip(self.prefix_lens, seq_lens)])
        flat = torch.tensor([t for ids in self.new_ids for t in ids])
        qo_indptr = torch.zeros(len(extend) + 1, dtype=torch.int32, device=device)
        kv_indptr = torch.zeros_like(qo_indptr)
        qo_indptr[1:] = torch.tensor(extend, device=device).cumsum(0)
        kv_indptr[1:] = torch.tensor(seq_lens, device=device).cumsum(0)
        return flat.to(device), positions.to(device), qo_indptr, kv_indptr, max(extend), max(seq_lens)
