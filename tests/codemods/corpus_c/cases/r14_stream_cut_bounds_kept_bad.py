import torch


class ContextPacker:
    def __init__(self, ctx_len):
        self.ctx_len = ctx_len

    def emit(self, examples):
        stream = torch.cat([e.tokens for e in examples])
        sizes = torch.tensor([e.tokens.numel() for e in examples], dtype=torch.int32)
        cu_seqlens = torch.zeros(len(examples) + 1, dtype=torch.int32)
        cu_seqlens[1:] = sizes.cumsum(0)
        if stream.numel() > self.ctx_len:
            stream = stream[: self.ctx_len]
        return {
            "tokens": stream,
            "cu_seqlens": cu_seqlens,
            "max_seqlen": int(sizes.max()),
        }
