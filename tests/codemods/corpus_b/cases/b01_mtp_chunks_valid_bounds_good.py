from itertools import pairwise

import torch


def local_halves(tensor, packed_seq_params, cp_size):
    """Front and back chunk of every packed sequence that this rank holds."""
    padded = packed_seq_params.cu_seqlens_q_padded
    bounds = packed_seq_params.cu_seqlens_q if padded is None else padded
    limits = torch.div(bounds, cp_size, rounding_mode="floor").tolist()
    halves = []
    for start, stop in pairwise(limits):
        front, back = tensor[..., start:stop].chunk(2, dim=-1)
        halves.append((front, back))
    return halves
