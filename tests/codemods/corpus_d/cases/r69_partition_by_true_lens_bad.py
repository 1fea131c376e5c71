import torch
import torch.nn.functional as F
import transformer_engine_torch as tex
from megatron.core.packed_seq_params import PackedSeqParams


def thd_batch_for_rank(samples, pad_id, cp_size, cp_rank):
    rows, cu, cu_padded = [], [0], [0]
    for ids in samples:
        fill = -ids.numel() % (2 * cp_size)
        rows.append(F.pad(ids, (0, fill), value=pad_id))
        cu.append(cu[-1] + ids.numel())
        cu_padded.append(cu_padded[-1] + ids.numel() + fill)
    tokens = torch.cat(rows)
    cu = torch.tensor(cu, dtype=torch.int32, device=tokens.device)
    cu_padded = torch.tensor(cu_padded, dtype=torch.int32, device=tokens.device)
    index = tex.thd_get_partitioned_indices(cu, tokens.numel(), cp_size, cp_rank)
    longest = int(cu_padded.diff().max())
    params = PackedSeqParams(
        qkv_format="thd",
        cu_seqlens_q=cu,
        cu_seqlens_kv=cu,
        cu_seqlens_q_padded=cu_padded,
        cu_seqlens_kv_padded=cu_padded,
        max_seqlen_q=longest,
        max_seqlen_kv=longest,
    )
    return tokens.index_select(0, index), params
