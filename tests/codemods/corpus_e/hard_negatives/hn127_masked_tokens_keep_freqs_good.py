import torch


class MaskedDenoiser(torch.nn.Module):
    def forward(self, x, freqs, mask_ratio):
        batch, count, dim = x.shape
        keep = int(count * (1 - mask_ratio))
        order = torch.rand(batch, count, device=x.device).argsort(dim=1)
        restore = order.argsort(dim=1)
        kept = order[:, :keep]
        x = x.gather(1, kept[..., None].expand(-1, -1, dim))
        freqs_kept = freqs[kept]
        x = self.encoder(x, freqs_kept)
        fill = self.mask_token.expand(batch, count - keep, dim)
        x = torch.cat([x, fill], dim=1)
        x = x.gather(1, restore[..., None].expand(-1, -1, dim))
        return self.decoder(x, freqs.expand(batch, -1, -1))
