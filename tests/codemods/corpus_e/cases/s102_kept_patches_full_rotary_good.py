import torch


class SparseTokenDiT(torch.nn.Module):
    def forward(self, latents, freqs, timestep, drop_ratio):
        x = self.patchify(latents)
        batch, count, dim = x.shape
        keep = count - int(count * drop_ratio)
        ids_keep = torch.rand(batch, count, device=x.device).argsort(dim=1)[:, :keep]
        x = x.gather(1, ids_keep.unsqueeze(-1).expand(-1, -1, dim))
        freqs = freqs[ids_keep]
        cond = self.time_embed(timestep)
        for block in self.blocks:
            x = block(x, cond, freqs)
        return x, ids_keep
