import torch
from torch.nn.attention.varlen import varlen_attn


def attend_turns(q, k, v, turns):
    total, longest = 0, 0
    marks = [0]
    for turn in turns:
        n = len(turn.token_ids)
        total += n
        longest = max(longest, n)
        marks.append(total)
    marks = torch.tensor(marks, dtype=torch.int32, device=q.device)
    return varlen_attn(q, k, v, marks, marks, longest, longest, is_causal=True)
