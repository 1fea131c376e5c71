import torch


class VideoPipeline:
    def prepare_prompts(self, prompt, negative_prompt, guidance_scale):
        prompt_embeds, prompt_mask = self.text_encoder(prompt, self.max_tokens)
        if guidance_scale > 1.0:
            negative_embeds, negative_mask = self.text_encoder(negative_prompt, self.max_tokens)
            prompt_embeds = torch.cat([negative_embeds, prompt_embeds], dim=0)
            prompt_mask = torch.cat([negative_mask, prompt_mask], dim=0)
        return prompt_embeds, prompt_mask

    def denoise(self, latents, t, prompt_embeds, prompt_mask):
        return self.transformer(
            torch.cat([latents, latents]),
            timestep=t,
            encoder_hidden_states=prompt_embeds,
            encoder_attention_mask=prompt_mask,
        )
