import torch
import torch.nn.functional as F


def pad_pack(batch, target):
    gap = target - batch["input_ids"].numel()
    if gap == 0:
        return batch
    batch["input_ids"] = F.pad(batch["input_ids"], (0, gap))
    batch["labels"] = F.pad(batch["labels"], (0, gap), value=-100)
    batch["position_ids"] = torch.cat([batch["position_ids"], torch.arange(gap)])
    end = batch["cu_seqlens"].new_tensor([target])
    batch["cu_seqlens"] = torch.cat([batch["cu_seqlens"], end])
    batch["max_seqlen"] = max(batch["max_seqlen"], gap)
    return batch
