import torch


class DraftInputs:
    def __init__(self, max_reqs, device):
        self.seq_lens = torch.zeros(max_reqs, dtype=torch.int32, device=device)
        self.query_start_loc = torch.arange(max_reqs + 1, dtype=torch.int32, device=device)

    def prepare(self, num_reqs, num_rejected):
        seq_lens = self.seq_lens[:num_reqs]
        seq_lens -= num_rejected
        seq_lens_cpu = seq_lens.cpu()
        return {
            "query_start_loc": self.query_start_loc[: num_reqs + 1],
            "seq_lens": seq_lens,
            "seq_lens_cpu": seq_lens_cpu,
            "max_seq_len": int(seq_lens_cpu.max()),
        }
