import torch


class VisionLanguageModel(torch.nn.Module):
    def embed(self, input_ids, pixel_values, grid_thw):
        embeds = self.embed_tokens(input_ids)
        features = self.visual(pixel_values, grid_thw)
        is_image = input_ids == self.image_token_id
        if int(is_image.sum()) != features.shape[0]:
            raise ValueError(f"{int(is_image.sum())} image tokens, but {features.shape[0]} image features")
        mask = is_image.unsqueeze(-1).expand_as(embeds)
        return embeds.masked_scatter(mask, features.to(embeds.dtype))
