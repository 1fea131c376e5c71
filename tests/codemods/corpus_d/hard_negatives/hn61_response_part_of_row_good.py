import torch


def policy_loss(log_probs, old_log_probs, advantages, attention_mask, clip=0.2):
    width = log_probs.shape[1]
    mask = attention_mask[:, -width:].float()
    ratio = torch.exp(log_probs - old_log_probs)
    bounded = ratio.clamp(1 - clip, 1 + clip)
    loss = -torch.min(ratio * advantages, bounded * advantages)
    return (loss * mask).sum() / mask.sum().clamp(min=1)
