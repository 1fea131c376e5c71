from torch import nn

from .packing import params_from_mask, rows_from_mask


class ThdLayer(nn.Module):
    def forward(self, hidden, rotary, attention_mask=None, packed_seq_params=None):
        rows = None
        if attention_mask is not None:
            packed_seq_params = params_from_mask(attention_mask)
            rows = rows_from_mask(attention_mask)
            shape = hidden.shape
            hidden = hidden.flatten(0, 1)[rows]
        out = self.attention(self.norm(hidden), rotary, packed_seq_params=packed_seq_params)
        hidden = hidden + out
        if rows is not None:
            full = hidden.new_zeros(shape).flatten(0, 1)
            hidden = full.index_copy(0, rows, hidden).view(shape)
        return hidden
