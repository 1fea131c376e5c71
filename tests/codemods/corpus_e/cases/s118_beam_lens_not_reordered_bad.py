import torch


class BeamCache:
    def __init__(self, layers):
        self.layers = layers
        self.seq_lens = None

    def reorder(self, beam_idx):
        for layer in self.layers:
            layer.k = layer.k.index_select(0, beam_idx)
            layer.v = layer.v.index_select(0, beam_idx)
        self.seq_lens = self.seq_lens + 1

    def attend(self, layer, q):
        slots = torch.arange(layer.k.shape[2], device=q.device)
        visible = slots[None] < self.seq_lens[:, None]
        return torch.nn.functional.scaled_dot_product_attention(q, layer.k, layer.v, visible[:, None, None])
