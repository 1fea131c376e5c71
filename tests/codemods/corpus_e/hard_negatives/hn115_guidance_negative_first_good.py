import torch
import torch.nn.functional as F


def encode_for_guidance(encoder, prompt, negative, guidance_scale):
    embeds, mask = encoder(prompt)
    if guidance_scale <= 1.0:
        return embeds, mask
    neg_embeds, neg_mask = encoder(negative)
    width = max(embeds.shape[1], neg_embeds.shape[1])
    embeds = F.pad(embeds, (0, 0, 0, width - embeds.shape[1]))
    mask = F.pad(mask, (0, width - mask.shape[1]))
    neg_embeds = F.pad(neg_embeds, (0, 0, 0, width - neg_embeds.shape[1]))
    neg_mask = F.pad(neg_mask, (0, width - neg_mask.shape[1]))
    return torch.cat([neg_embeds, embeds]), torch.cat([neg_mask, mask])
