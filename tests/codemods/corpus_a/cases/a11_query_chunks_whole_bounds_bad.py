import torch
from flash_attn import flash_attn_varlen_func


def attend_in_chunks(q, k, v, chunk_rows, scale=None):
    cu_k = torch.tensor([0, k.shape[0]], dtype=torch.int32, device=k.device)
    cu_q = torch.tensor([0, q.shape[0]], dtype=torch.int32, device=q.device)
    outputs = []
    for piece in q.split(chunk_rows):
        attended = flash_attn_varlen_func(
            piece,
            k,
            v,
            cu_seqlens_q=cu_q,
            cu_seqlens_k=cu_k,
            max_seqlen_q=piece.shape[0],
            max_seqlen_k=k.shape[0],
            softmax_scale=scale,
        )
        outputs.append(attended.flatten(1))
    return torch.cat(outputs)
