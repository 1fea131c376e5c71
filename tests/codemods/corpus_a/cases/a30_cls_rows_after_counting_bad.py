import torch
from torch import nn


class NativeResolutionTower(nn.Module):
    def forward(self, images):
        tokens = [self.patch_embed(image).flatten(1).T for image in images]
        num_patches = [t.shape[0] for t in tokens]
        tokens = [torch.cat([self.cls_token, t]) for t in tokens]
        x = torch.cat(tokens)
        cu_seqlens = torch.tensor([0, *num_patches], device=x.device).cumsum(0).to(torch.int32)
        for layer in self.layers:
            x = layer(x, cu_seqlens=cu_seqlens, max_seqlen=max(num_patches))
        return self.norm(x)[cu_seqlens[:-1].long()]
