import torch


class AgentTrajectory:
    def to_sample(self, turns, max_len):
        ids, loss_mask = list(self.prompt_ids), [0] * len(self.prompt_ids)
        for turn in turns:
            ids += turn.token_ids
            if turn.role == "assistant":
                loss_mask += [1] * len(turn.token_ids)
            else:
                loss_mask += [0] * len(turn.token_ids)
        ids = ids[:max_len]
        loss_mask = loss_mask[:max_len]
        return {
            "input_ids": torch.tensor(ids),
            "loss_mask": torch.tensor(loss_mask),
            "length": len(ids),
        }
