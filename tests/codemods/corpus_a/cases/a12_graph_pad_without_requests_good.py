import torch
import torch.nn.functional as F


class FullDecodeInputs:
    def __init__(self, capture_sizes):
        self.capture_sizes = sorted(capture_sizes)

    def prepare(self, input_ids, positions, seq_lens):
        num_reqs = seq_lens.shape[0]
        graph_size = next(size for size in self.capture_sizes if size >= num_reqs)
        missing = graph_size - num_reqs
        input_ids = F.pad(input_ids, (0, missing))
        positions = F.pad(positions, (0, missing))
        seq_lens = F.pad(seq_lens, (0, missing), value=1)
        query_start_loc = torch.arange(graph_size + 1, dtype=torch.int32, device=seq_lens.device)
        return {
            "input_ids": input_ids,
            "positions": positions,
            "seq_lens": seq_lens,
            "query_start_loc": query_start_loc,
        }
