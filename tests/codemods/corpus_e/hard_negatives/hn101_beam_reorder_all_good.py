import torch


class BeamState:
    def __init__(self, keys, values, cache_lens, scores):
        self.keys = keys
        self.values = values
        self.cache_lens = cache_lens
        self.scores = scores

    def select(self, parent, step_scores):
        self.keys = [k.index_select(0, parent) for k in self.keys]
        self.values = [v.index_select(0, parent) for v in self.values]
        self.cache_lens = self.cache_lens.index_select(0, parent) + 1
        self.scores = self.scores[parent] + step_scores

    def mask(self):
        width = self.keys[0].shape[2]
        return torch.arange(width, device=self.cache_lens.device)[None] < self.cache_lens[:, None]
