import itertools

import torch

from .seqlen_balancing import get_reverse_idx, rearrange_micro_batches


class CriticWorker:
    def compute_values(self, batch, max_tokens):
        micros, order = rearrange_micro_batches(batch, max_tokens)
        with torch.no_grad():
            values = torch.cat([self.forward_micro(m) for m in micros], dim=0)
        reply_len = batch["responses"].size(-1)
        values = values * batch["attention_mask"][:, -reply_len - 1 : -1]
        back = get_reverse_idx(list(itertools.chain.from_iterable(order)))
        return values[torch.tensor(back)]
