import torch


class HybridInputs:
    def __init__(self, embed):
        self.embed = embed

    def __call__(self, documents):
        tokens = torch.cat(documents)
        lens = torch.tensor([d.numel() for d in documents], device=tokens.device)
        cu_seqlens = torch.nn.functional.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))
        number = torch.arange(lens.numel(), dtype=torch.int32, device=tokens.device)
        seq_idx = torch.repeat_interleave(number, cu_seqlens.diff())
        return {"hidden": self.embed(tokens)[None], "cu_seqlens": cu_seqlens, "seq_idx": seq_idx[None]}
