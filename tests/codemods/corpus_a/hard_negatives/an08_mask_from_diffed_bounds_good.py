from xformers.ops import memory_efficient_attention
from xformers.ops.fmha import BlockDiagonalMask


def attend(q, k, v, cu_seqlens_q, cu_seqlens_kv):
    bias = BlockDiagonalMask.from_seqlens(cu_seqlens_q.diff().tolist(), cu_seqlens_kv.diff().tolist())
    out = memory_efficient_attention(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), attn_bias=bias)
    return out.squeeze(0)
