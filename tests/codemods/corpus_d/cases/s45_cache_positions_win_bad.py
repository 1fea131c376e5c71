import torch


class DecoderModel(torch.nn.Module):
    def forward(self, input_ids, position_ids=None, past_key_values=None, **flash_kwargs):
        embeds = self.embed_tokens(input_ids)
        seen = past_key_values.get_seq_length() if past_key_values is not None else 0
        cache_position = torch.arange(seen, seen + embeds.shape[1], device=embeds.device)
        position_ids = cache_position.unsqueeze(0)
        rotary = self.rotary_emb(embeds, position_ids)
        hidden = embeds
        for layer in self.layers:
            hidden = layer(
                hidden,
                position_embeddings=rotary,
                past_key_values=past_key_values,
                cache_position=cache_position,
                **flash_kwargs,
            )
        return self.norm(hidden)
