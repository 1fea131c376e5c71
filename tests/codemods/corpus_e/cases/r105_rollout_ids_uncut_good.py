import torch


class MultiTurnRollout:
    def finish(self, prompt_ids, turns):
        tokens = list(prompt_ids)
        loss_mask = [0] * len(prompt_ids)
        for turn in turns:
            tokens += turn["token_ids"]
            loss_mask += [int(turn["role"] == "assistant")] * len(turn["token_ids"])
        sequence_ids = torch.tensor(tokens)
        attention_mask = torch.ones_like(sequence_ids)
        position_ids = torch.arange(len(tokens))
        loss_mask = torch.tensor(loss_mask)
        sequence_ids = sequence_ids[: self.max_length]
        attention_mask = attention_mask[: self.max_length]
        position_ids = position_ids[: self.max_length]
        loss_mask = loss_mask[: self.max_length]
        return {
            "input_ids": sequence_ids,
            "attention_mask": attention_mask,
            "position_ids": position_ids,
            "loss_mask": loss_mask,
        }
