import torch


def pack_for_trainer(samples):
    tokens, masks, logprobs, positions = [], [], [], []
    for s in samples:
        ids = torch.tensor(s.tokens)
        scores = torch.log_softmax(s.logits[:-1], dim=-1)
        lp = scores.gather(-1, ids[1:, None]).squeeze(-1)
        tokens.append(ids)
        masks.append(torch.tensor(s.loss_mask))
        positions.append(torch.arange(ids.numel()))
        logprobs.append(torch.cat([lp.new_zeros(1), lp]))
    return {
        "input_ids": torch.cat(tokens)[None],
        "loss_mask": torch.cat(masks)[None],
        "position_ids": torch.cat(positions)[None],
        "logprobs": torch.cat(logprobs)[None],
    }
