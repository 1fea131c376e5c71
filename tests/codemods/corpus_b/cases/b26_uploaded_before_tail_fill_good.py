class InputBatch:
    def __init__(self, make_buffer, max_reqs):
        self.query_start_loc = make_buffer(max_reqs + 1)
        self.seq_lens = make_buffer(max_reqs)

    def refresh(self, num_tokens, seq_lens, num_reqs):
        starts = self.query_start_loc.np
        starts[0] = 0
        starts[1 : num_reqs + 1] = num_tokens.cumsum()
        starts[num_reqs + 1 :] = starts[num_reqs]
        self.query_start_loc.copy_to_gpu()
        self.seq_lens.np[:num_reqs] = seq_lens
        self.seq_lens.np[num_reqs:] = 0
        self.seq_lens.copy_to_gpu()

    def metadata(self, padded_reqs):
        return self.query_start_loc.gpu[: padded_reqs + 1], self.seq_lens.gpu[:padded_reqs]
