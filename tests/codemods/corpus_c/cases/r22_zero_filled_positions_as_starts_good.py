import torch
import torch.nn.functional as F


def close_pack(pack, width, pad_token):
    missing = width - pack["input_ids"].numel()
    ids = F.pad(pack["input_ids"], (0, missing), value=pad_token)
    pos = torch.cat([pack["position_ids"], torch.arange(missing)])
    starts = torch.where(pos == 0)[0]
    cu = torch.cat([starts, torch.tensor([width])]).int()
    return {
        "input_ids": ids[None],
        "position_ids": pos[None],
        "cu_seq_lens_q": cu,
        "cu_seq_lens_k": cu,
    }
