import torch


def chunked_attention(q, k, v, key_mask, block):
    scale = q.shape[-1] ** -0.5
    top = torch.full(q.shape[:-1], float("-inf"), device=q.device)
    norm = torch.zeros_like(top)
    acc = torch.zeros_like(q)
    for start in range(0, k.shape[2], block):
        part = slice(start, start + block)
        logits = q @ k[:, :, part].transpose(-1, -2) * scale
        logits = logits.masked_fill(~key_mask[:, None, None, part], torch.finfo(q.dtype).min)
        peak = torch.maximum(top, logits.amax(-1))
        weights = torch.exp(logits - peak[..., None])
        decay = torch.exp(top - peak)
        norm = norm * decay + weights.sum(-1)
        acc = acc * decay[..., None] + weights @ v[:, :, part]
        top = peak
    return acc / norm[..., None]
