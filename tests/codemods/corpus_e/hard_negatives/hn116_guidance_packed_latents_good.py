import torch


class PackedDenoiser:
    def __init__(self, transformer):
        self.transformer = transformer

    def step(self, latents, text, neg_text, t, scale):
        stream, lens = [], []
        for branch in (neg_text, text):
            for caption, image in zip(branch, latents):
                stream += [caption, image]
                lens.append(caption.shape[0] + image.shape[0])
        cu_seqlens = torch.tensor([0] + lens).cumsum(0).to(torch.int32)
        out = self.transformer(torch.cat(stream), cu_seqlens=cu_seqlens, max_seqlen=max(lens), timestep=t)
        parts = out.split(lens)
        half = len(latents)
        guided = []
        for i, image in enumerate(latents):
            n = image.shape[0]
            uncond, cond = parts[i][-n:], parts[half + i][-n:]
            guided.append(uncond + scale * (cond - uncond))
        return guided
