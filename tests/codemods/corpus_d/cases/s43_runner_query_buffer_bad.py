import numpy as np
import torch


class StepInputs:
    def __init__(self, max_reqs, device):
        self.host = np.zeros(max_reqs + 1, dtype=np.int32)
        self.query_start_loc = torch.zeros(max_reqs + 1, dtype=torch.int32, device=device)

    def prepare(self, scheduled):
        counts = np.array([r.num_new_tokens for r in scheduled], dtype=np.int32)
        n = len(counts)
        np.cumsum(counts, out=self.host[:n])
        self.query_start_loc[: n + 1].copy_(torch.from_numpy(self.host[: n + 1]), non_blocking=True)
        return {
            "query_start_loc": self.query_start_loc[: n + 1],
            "max_query_len": int(counts.max()),
        }
