import torch


class CaptionDropout:
    def __init__(self, null_caption, p):
        self.null_caption = null_caption
        self.p = p

    def __call__(self, captions):
        lens = torch.tensor([c.shape[0] for c in captions])
        drop = torch.rand(len(captions)) < self.p
        captions = [self.null_caption if d else c for c, d in zip(captions, drop.tolist())]
        cu_seqlens_k = torch.nn.functional.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))
        return {
            "context": torch.cat(captions),
            "cu_seqlens_k": cu_seqlens_k,
            "max_seqlen_k": int(lens.max()),
        }
