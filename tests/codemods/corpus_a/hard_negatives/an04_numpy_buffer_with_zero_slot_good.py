import numpy as np
import torch


class SchedulerInputs:
    def __init__(self, max_num_reqs, device):
        self.device = device
        self.query_start_loc = np.zeros(max_num_reqs + 1, dtype=np.int32)

    def prepare(self, num_scheduled_tokens):
        num_reqs = len(num_scheduled_tokens)
        np.cumsum(num_scheduled_tokens, out=self.query_start_loc[1 : num_reqs + 1])
        query_start_loc = torch.from_numpy(self.query_start_loc[: num_reqs + 1]).to(self.device)
        req_indices = np.repeat(np.arange(num_reqs), num_scheduled_tokens)
        positions = np.arange(self.query_start_loc[num_reqs]) - self.query_start_loc[req_indices]
        return {
            "query_start_loc": query_start_loc,
            "positions": torch.from_numpy(positions).to(self.device),
            "max_query_len": int(max(num_scheduled_tokens)),
        }
