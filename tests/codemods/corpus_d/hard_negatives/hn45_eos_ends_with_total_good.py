import torch


def bounds_from_eos(tokens, eos_id):
    ends = torch.nonzero(tokens == eos_id).flatten() + 1
    if ends.numel() == 0 or int(ends[-1]) != tokens.numel():
        ends = torch.cat([ends, ends.new_tensor([tokens.numel()])])
    cu_seqlens = torch.nn.functional.pad(ends, (1, 0)).to(torch.int32)
    return cu_seqlens, int(cu_seqlens.diff().max())
