import torch


class ChunkedMetadataBuilder:
    def __init__(self, limit, device):
        self.starts = torch.zeros(limit + 1, dtype=torch.int32, device=device)

    def build(self, num_reqs, query_lens, seq_lens):
        self.starts[1 : num_reqs + 1] = torch.cumsum(query_lens, dim=0)
        self.starts[num_reqs + 1 :].fill_(int(query_lens.sum()))
        query_start_loc = self.starts[:num_reqs]
        return {
            "query_start_loc": query_start_loc,
            "seq_lens": seq_lens[:num_reqs],
            "max_query_len": int(query_lens.max()),
        }
