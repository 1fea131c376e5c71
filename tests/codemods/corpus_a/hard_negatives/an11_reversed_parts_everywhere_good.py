import torch


def pack_latest_first(turns, device):
    ordered = list(reversed(turns))
    tokens = torch.cat([turn["tokens"] for turn in ordered]).to(device)
    speaker_ids = torch.cat([torch.full_like(turn["tokens"], turn["speaker"]) for turn in ordered]).to(device)
    lens = torch.tensor([turn["tokens"].numel() for turn in ordered], device=device)
    cu_seqlens = torch.cat([lens.new_zeros(1), lens.cumsum(0)]).int()
    return {"tokens": tokens, "speaker_ids": speaker_ids, "cu_seqlens": cu_seqlens}
