import torch
import torch.nn.functional as F
from flash_attn import flash_attn_varlen_func


def boundaries(lens, device):
    return F.pad(torch.tensor(lens).cumsum(0), (1, 0)).to(device, torch.int32)


def attend_recent_memory(q_parts, memories, window, heads):
    q_lens = [part.shape[0] for part in q_parts]
    q = torch.cat(q_parts).unflatten(-1, (heads, -1))
    recent = [memory[-window:] for memory in memories]
    kv_lens = [memory.shape[0] for memory in recent]
    k, v = torch.cat(recent).unflatten(-1, (2, heads, -1)).unbind(1)
    return flash_attn_varlen_func(
        q,
        k,
        v,
        boundaries(q_lens, q.device),
        boundaries(kv_lens, q.device),
        max(q_lens),
        max(kv_lens),
    )
