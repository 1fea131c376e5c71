from einops import rearrange
from fla.layers.utils import get_unpad_data, index_first_axis, pad_input
from fla.ops.kda import chunk_kda
from torch import nn


class DeltaMixer(nn.Module):
    def forward(self, hidden_states, attention_mask=None, **kwargs):
        batch_size, q_len, _ = hidden_states.shape
        cu_seqlens = kwargs.get("cu_seqlens")
        if attention_mask is not None:
            indices, cu_seqlens, _ = get_unpad_data(attention_mask[:, -q_len:])
            hidden_states = index_first_axis(rearrange(hidden_states, "b s d -> (b s) d"), indices).unsqueeze(0)
        q, k, v, g, beta = self.project(hidden_states)
        o, _ = chunk_kda(q=q, k=k, v=v, g=g, beta=beta, cu_seqlens=cu_seqlens)
        o = self.o_proj(rearrange(o, "b t h d -> b t (h d)"))
        if attention_mask is not None:
            o = pad_input(o.squeeze(0), indices, batch_size, q_len)
        return o
