import torch


class InterleavedPacker:
    def __init__(self, text_embed, patchify):
        self.text_embed = text_embed
        self.patchify = patchify

    def __call__(self, prompt_ids, condition, noisy):
        text = self.text_embed(prompt_ids)
        clean = self.patchify(condition)
        target = self.patchify(noisy)
        sequence = torch.cat([text, clean, target], dim=0)
        counts = torch.tensor([text.size(0), target.size(0)], device=sequence.device)
        experts = torch.tensor([0, 1], device=sequence.device)
        expert_ids = torch.repeat_interleave(experts, counts)
        return {"sequence": sequence, "expert_ids": expert_ids}
