import torch


def collate_preferences(examples):
    chosen = [torch.tensor(e["chosen_input_ids"]) for e in examples]
    rejected = [torch.tensor(e["rejected_input_ids"]) for e in examples]
    input_ids = torch.cat(chosen + rejected)
    sizes = [row.numel() for row in chosen + rejected]
    position_ids = torch.cat([torch.arange(n) for n in sizes])
    cu_seqlens = torch.tensor([0, *sizes]).cumsum(0).int()
    return {
        "input_ids": input_ids.unsqueeze(0),
        "position_ids": position_ids.unsqueeze(0),
        "cu_seqlens": cu_seqlens,
        "max_seqlen": max(sizes),
        "num_pairs": len(examples),
    }
