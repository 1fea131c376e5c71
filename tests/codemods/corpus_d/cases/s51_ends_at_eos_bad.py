import torch


class DocumentBounds:
    def __init__(self, tokenizer):
        self.eos_id = tokenizer.eos_id

    def __call__(self, row):
        ends = torch.nonzero(row == self.eos_id).flatten()
        edges = torch.cat([ends.new_zeros(1), ends, ends.new_tensor([row.numel()])])
        cu_seqlens = torch.unique_consecutive(edges).to(torch.int32)
        return {
            "cu_seqlens": cu_seqlens,
            "max_seqlen": int(cu_seqlens.diff().max()),
        }
