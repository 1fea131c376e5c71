from fla.layers.utils import get_unpad_data, index_first_axis, pad_input
from torch import nn


class RetentionLayer(nn.Module):
    def forward(self, hidden_states, attention_mask=None, cu_seqlens=None):
        bsz, width, _ = hidden_states.shape
        indices = None
        if cu_seqlens is None and attention_mask is not None:
            indices, cu_seqlens, _ = get_unpad_data(attention_mask)
            hidden_states = index_first_axis(hidden_states.flatten(0, 1), indices).unsqueeze(0)
        y = self.mix(hidden_states, cu_seqlens=cu_seqlens)
        if indices is not None:
            y = pad_input(y.squeeze(0), indices, bsz, width)
        return self.out_norm(y)
