class RolloutCollector:
    def __init__(self, actor, critic, min_tokens):
        self.actor = actor
        self.critic = critic
        self.min_tokens = min_tokens

    def collect(self, batch):
        values = self.critic.compute_values(batch)
        keep = batch.batch["response_mask"].sum(-1) >= self.min_tokens
        batch = batch.select_idxs(keep)
        old_log_probs = self.actor.compute_log_prob(batch)
        batch = batch.union(old_log_probs)
        return batch.union(values.select_idxs(keep))
