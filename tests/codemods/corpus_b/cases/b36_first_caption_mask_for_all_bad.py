import torch
import torch.nn.functional as F


class JointPacker:
    def __init__(self, latent_tokens):
        self.latent_tokens = latent_tokens

    def pack(self, latents, captions, caption_mask):
        kept = caption_mask[0].nonzero().flatten()
        rows = []
        for latent, caption in zip(latents, captions, strict=True):
            rows.append(torch.cat([latent, caption[kept]]))
        lens = self.latent_tokens + caption_mask.sum(dim=1)
        cu_seqlens = F.pad(lens.cumsum(0), (1, 0)).to(torch.int32)
        return torch.cat(rows), cu_seqlens, int(lens.max())
