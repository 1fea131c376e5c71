from torch import nn
from torch.utils.checkpoint import checkpoint


class Decoder(nn.Module):
    def __init__(self, layers, norm, recompute=False):
        super().__init__()
        self.layers = layers
        self.norm = norm
        self.recompute = recompute

    def forward(self, hidden, rope, cu_seqlens, max_seqlen):
        for layer in self.layers:
            if self.recompute and self.training:
                hidden = checkpoint(
                    layer, hidden, rope, cu_seqlens=cu_seqlens, max_seqlen=max_seqlen, use_reentrant=False
                )
            else:
                hidden = layer(hidden, rope, cu_seqlens=cu_seqlens, max_seqlen=max_seqlen)
        return self.norm(hidden)
