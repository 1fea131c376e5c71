import torch
from torch import nn


class SoftPromptDecoder(nn.Module):
    def __init__(self, embed, rotary, layers, num_virtual_tokens, width):
        super().__init__()
        self.embed = embed
        self.rotary = rotary
        self.layers = layers
        self.prompt = nn.Parameter(torch.randn(num_virtual_tokens, width) * 0.02)

    def forward(self, token_ids):
        hidden = torch.cat([self.prompt, self.embed(token_ids)], dim=0)
        position_ids = torch.arange(token_ids.shape[0], device=token_ids.device)
        cos, sin = self.rotary(position_ids)
        for layer in self.layers:
            hidden = layer(hidden, position_embeddings=(cos, sin))
        return hidden[self.prompt.shape[0] :]
