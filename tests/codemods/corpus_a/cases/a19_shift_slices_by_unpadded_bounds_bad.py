import torch
import transformer_engine_torch as tex


def shifted_local_ids(ids, params, cp_size, cp_rank):
    rows = tex.thd_get_partitioned_indices(params.cu_seqlens_q_padded, ids.numel(), cp_size, cp_rank)
    local = ids[rows]
    bounds = params.cu_seqlens_q // cp_size
    out = torch.zeros_like(local)
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        first, second = local[start:end].chunk(2)
        middle = start + first.numel()
        out[start : middle - 1] = first[1:]
        out[middle : end - 1] = second[1:]
    return out
