import numpy as np


class GraphInputs:
    def __init__(self, buffers):
        self.query_start_loc = buffers.query_start_loc
        self.seq_lens = buffers.seq_lens

    def load(self, num_scheduled, context_lens):
        n = len(num_scheduled)
        ends = np.cumsum(num_scheduled)
        self.query_start_loc.np[0] = 0
        self.query_start_loc.np[1 : n + 1] = ends
        self.query_start_loc.np[n + 1 :] = ends[-1]
        self.seq_lens.np[:n] = context_lens
        self.seq_lens.np[n:] = 0
        return self.query_start_loc.copy_to_gpu(), self.seq_lens.copy_to_gpu()
