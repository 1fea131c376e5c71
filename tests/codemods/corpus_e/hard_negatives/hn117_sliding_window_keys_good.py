import torch
from flash_attn import flash_attn_varlen_func


def decode_in_window(q, key_rows, value_rows, window):
    keys = torch.cat([k[-window:] for k in key_rows])
    values = torch.cat([v[-window:] for v in value_rows])
    lens = [min(k.shape[0], window) for k in key_rows]
    cu_k = torch.zeros(len(lens) + 1, dtype=torch.int32, device=q.device)
    cu_k[1:] = torch.tensor(lens, device=q.device).cumsum(0)
    cu_q = torch.arange(q.shape[0] + 1, dtype=torch.int32, device=q.device)
    return flash_attn_varlen_func(q, keys, values, cu_q, cu_k, 1, max(lens))
