import torch
import torch.nn.functional as F

from .comm import heads_to_sequence, sequence_to_heads
from .kernels import packed_attention


class UlyssesAttention(torch.nn.Module):
    def forward(self, hidden, seq_lens, group):
        rows = hidden.shape[0] // group.size()
        local = hidden[group.rank() * rows : (group.rank() + 1) * rows]
        cu_seqlens = F.pad(seq_lens.cumsum(0, dtype=torch.int32), (1, 0))
        q, k, v = self.qkv(local).unflatten(-1, (3, self.heads, -1)).unbind(1)
        q, k, v = (sequence_to_heads(x, group) for x in (q, k, v))
        out = packed_attention(q, k, v, cu_seqlens=cu_seqlens, max_seqlen=int(seq_lens.max()))
        return self.proj(heads_to_sequence(out, group).flatten(1))
