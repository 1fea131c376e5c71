import torch


class DecodeBuffers:
    def __init__(self, max_reqs, max_tokens, device):
        self.tokens = torch.zeros(max_tokens, dtype=torch.long, device=device)
        self.positions = torch.zeros(max_tokens, dtype=torch.long, device=device)
        self.starts = torch.zeros(max_reqs + 1, dtype=torch.int32, device=device)
        self.seq_lens = torch.zeros(max_reqs, dtype=torch.int32, device=device)

    def fill(self, tokens, positions, query_lens, seq_lens, padded_reqs):
        n, total = query_lens.numel(), tokens.numel()
        self.tokens[:total].copy_(tokens)
        self.positions[:total].copy_(positions)
        self.starts[1 : n + 1] = query_lens.cumsum(0)
        self.starts[n + 1 : padded_reqs + 1] = total
        self.seq_lens[:n] = seq_lens
        self.seq_lens[n:padded_reqs].fill_(0)
        return self.starts[: padded_reqs + 1], self.seq_lens[:padded_reqs]
