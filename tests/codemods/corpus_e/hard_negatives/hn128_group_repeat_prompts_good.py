import torch


def assemble_rollouts(prompt_ids, prompt_mask, uids, responses, response_mask, n):
    if n > 1:
        prompt_ids = prompt_ids.repeat_interleave(n, dim=0)
        prompt_mask = prompt_mask.repeat_interleave(n, dim=0)
        uids = [u for u in uids for _ in range(n)]
    input_ids = torch.cat([prompt_ids, responses], dim=1)
    attention_mask = torch.cat([prompt_mask, response_mask], dim=1)
    start = (prompt_mask.cumsum(-1) - 1).clamp(min=0)
    step = torch.arange(1, responses.shape[1] + 1, device=responses.device)
    position_ids = torch.cat([start, start[:, -1:] + step], dim=1)
    return {"input_ids": input_ids, "attention_mask": attention_mask, "position_ids": position_ids, "uid": uids}
