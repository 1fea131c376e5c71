import torch


class DecoderModel(torch.nn.Module):
    def forward(self, input_ids, attention_mask=None, past_length=0):
        batch, seq = input_ids.shape
        position_ids = torch.arange(past_length, past_length + seq, device=input_ids.device)
        position_ids = position_ids.unsqueeze(0).expand(batch, -1)
        hidden = self.embed_tokens(input_ids)
        for layer in self.layers:
            hidden = layer(hidden, attention_mask=attention_mask, position_ids=position_ids)
        return self.norm(hidden)
