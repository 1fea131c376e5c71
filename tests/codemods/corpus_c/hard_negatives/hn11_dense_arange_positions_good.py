import torch
from torch import nn


class PromptEncoder(nn.Module):
    def forward(self, input_ids, attention_mask):
        width = input_ids.shape[1]
        position_ids = torch.arange(width, device=input_ids.device).expand_as(input_ids)
        h = self.embed(input_ids) + self.pos_embed(position_ids)
        for layer in self.layers:
            h = layer(h, key_padding_mask=attention_mask == 0)
        lens = attention_mask.sum(dim=1)
        return h, lens
