import torch
import torch.nn.functional as F


def finish_pack(tokens, seqlens, multiple, pad_id):
    cu_seqlens = F.pad(seqlens.cumsum(0), (1, 0))
    position_ids = torch.cat([torch.arange(n) for n in seqlens.tolist()])
    segment_ids = torch.repeat_interleave(torch.arange(seqlens.numel()), seqlens)
    tail = -tokens.numel() % multiple
    if tail:
        tokens = F.pad(tokens, (0, tail), value=pad_id)
        cu_seqlens = torch.cat([cu_seqlens, cu_seqlens[-1:] + tail])
        position_ids = torch.cat([position_ids, torch.arange(tail)])
        segment_ids = F.pad(segment_ids, (0, tail), value=-1)
    return {
        "tokens": tokens,
        "cu_seqlens": cu_seqlens.int(),
        "position_ids": position_ids,
        "segment_ids": segment_ids,
        "max_seqlen": int(cu_seqlens.diff().max()),
    }
