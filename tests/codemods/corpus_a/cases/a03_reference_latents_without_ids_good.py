import torch


class EditPipeline:
    def __init__(self, transformer, scheduler):
        self.transformer = transformer
        self.scheduler = scheduler

    def denoise(self, latents, reference, prompt_embeds, txt_ids, timesteps):
        img_ids = self.grid_ids(latents.shape[-2] // 2, latents.shape[-1] // 2, latents.device)
        reference_ids = self.grid_ids(reference.shape[-2] // 2, reference.shape[-1] // 2, latents.device)
        reference_ids[..., 0] = 1
        img_ids = torch.cat([img_ids, reference_ids], dim=0)
        latents = self.pack_latents(latents)
        reference = self.pack_latents(reference)
        for t in timesteps:
            hidden_states = torch.cat([latents, reference], dim=1)
            noise = self.transformer(
                hidden_states=hidden_states,
                encoder_hidden_states=prompt_embeds,
                timestep=t.expand(latents.shape[0]) / 1000,
                txt_ids=txt_ids,
                img_ids=img_ids,
            )[0]
            latents = self.scheduler.step(noise[:, : latents.shape[1]], t, latents)[0]
        return latents

    @staticmethod
    def grid_ids(rows, cols, device):
        ids = torch.zeros(rows, cols, 3, device=device)
        ids[..., 1] += torch.arange(rows, device=device)[:, None]
        ids[..., 2] += torch.arange(cols, device=device)
        return ids.flatten(0, 1)

    @staticmethod
    def pack_latents(x):
        b, c, h, w = x.shape
        x = x.view(b, c, h // 2, 2, w // 2, 2)
        return x.permute(0, 2, 4, 1, 3, 5).reshape(b, h * w // 4, c * 4)
