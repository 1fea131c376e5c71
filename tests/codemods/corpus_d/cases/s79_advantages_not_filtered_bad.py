def drop_flat_groups(rollout, group_size):
    rewards = rollout["rewards"].view(-1, group_size)
    adv = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-6)
    useful = (rewards.std(1) > 0).repeat_interleave(group_size)
    return {
        "input_ids": rollout["input_ids"][useful],
        "response_mask": rollout["response_mask"][useful],
        "old_log_probs": rollout["old_log_probs"][useful],
        "advantages": adv.flatten(),
    }
