import torch
from torch import nn


class PredictionModel(nn.Module):
    def forward(self, input_ids, position_ids, packed_seq_params):
        hidden = self.embedding(input_ids)
        rotary = self.rope(position_ids)
        for block in self.blocks:
            hidden = block(hidden, rotary, packed_seq_params=packed_seq_params)
        logits = self.head(self.norm(hidden))
        extra_logits = []
        for depth, block in enumerate(self.extra_blocks, start=1):
            ahead = self.shift(input_ids, depth, packed_seq_params)
            joined = self.merge(torch.cat([hidden, self.embedding(ahead)], dim=-1))
            hidden = block(joined, rotary, packed_seq_params=packed_seq_params)
            extra_logits.append(self.head(self.norm(hidden)))
        return logits, extra_logits
