import torch


def roll_packed(tokens, packed_seq_params, cp_group, first_of_next):
    cp_size = cp_group.size()
    cu_seqlens = packed_seq_params.cu_seqlens_q_padded
    if cu_seqlens is None:
        cu_seqlens = packed_seq_params.cu_seqlens_q
    out = tokens.clone()
    for lo, hi in zip(cu_seqlens[:-1].tolist(), cu_seqlens[1:].tolist()):
        rows = slice(lo // cp_size, hi // cp_size)
        front, back = tokens[rows].chunk(2)
        head_f, head_b = first_of_next(front, back, cp_group)
        out[rows] = torch.cat([front[1:], head_f, back[1:], head_b])
    return out
