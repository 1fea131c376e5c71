import torch
from torch import nn


class VisualizedEncoder(nn.Module):
    def encode_mm(self, images, texts):
        words = self.embeddings.word_embeddings(texts["input_ids"])
        visual = self.visual_proj(self.vision_tower(images))
        inputs_embeds = torch.cat([words[:, :1], visual, words[:, 1:]], dim=1)
        text_types = torch.zeros(words.shape[:2], dtype=torch.long, device=words.device)
        visual_types = torch.ones(visual.shape[:2], dtype=torch.long, device=words.device)
        token_type_ids = torch.cat([visual_types, text_types], dim=1)
        hidden = inputs_embeds + self.embeddings.token_type_embeddings(token_type_ids)
        return self.encoder(hidden)[:, 0]
