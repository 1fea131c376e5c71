import torch
from torch import nn


class DecoderStack(nn.Module):
    def forward(self, input_ids, position_ids=None, cu_seqlens=None, cache=None):
        h = self.embed_tokens(input_ids)
        past = cache.length if cache is not None else 0
        position_ids = torch.arange(past, past + h.shape[1], device=h.device).unsqueeze(0)
        rope = self.rotary_emb(h, position_ids)
        for layer in self.layers:
            h = layer(h, rope, cu_seqlens=cu_seqlens, cache=cache)
        return self.norm(h)
