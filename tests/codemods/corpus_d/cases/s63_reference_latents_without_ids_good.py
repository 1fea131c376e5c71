import torch


class EditPipeline:
    def predict(self, latents, ref_latents, prompt_embeds, latent_ids, ref_ids, text_ids, t):
        rows = latents
        img_ids = latent_ids
        if ref_latents is not None:
            rows = torch.cat([latents, ref_latents], dim=1)
            img_ids = torch.cat([latent_ids, ref_ids], dim=0)
        noise = self.transformer(
            hidden_states=rows,
            encoder_hidden_states=prompt_embeds,
            timestep=t / 1000,
            img_ids=img_ids,
            txt_ids=text_ids,
        )
        return noise[:, : latents.size(1)]
