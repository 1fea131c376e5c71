import torch
from torch.nn.attention.varlen import varlen_attn


def window_decode(q, k_cache, v_cache, window):
    batch, q_len = q.shape[:2]
    if k_cache.shape[1] > window:
        k_cache = k_cache[:, -window:]
        v_cache = v_cache[:, -window:]
    kv_len = k_cache.shape[1]
    steps = torch.arange(batch + 1, dtype=torch.int32, device=q.device)
    out = varlen_attn(
        q.flatten(0, 1),
        k_cache.flatten(0, 1),
        v_cache.flatten(0, 1),
        steps * q_len,
        steps * kv_len,
        q_len,
        kv_len,
    )
    return out.unflatten(0, (batch, q_len))
