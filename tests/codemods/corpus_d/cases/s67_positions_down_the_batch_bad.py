import torch


class RolloutWorker:
    def build_inputs(self, prompts):
        width = max(len(p) for p in prompts)
        batch = len(prompts)
        ids = torch.full((batch, width), self.pad_id)
        mask = torch.zeros((batch, width), dtype=torch.long)
        for i, p in enumerate(prompts):
            ids[i, width - len(p) :] = torch.tensor(p)
            mask[i, width - len(p) :] = 1
        positions = (mask.cumsum(0) - 1).clamp(min=0)
        return {
            "input_ids": ids.to(self.device),
            "attention_mask": mask.to(self.device),
            "position_ids": positions.to(self.device),
        }
