import torch
import torch.nn.functional as F


def packed_next_token_loss(logits, input_ids, cu_seqlens):
    labels = torch.roll(input_ids, shifts=-1, dims=0)
    last = cu_seqlens[1:].long() - 1
    labels = labels.index_fill(0, last, -100)
    return F.cross_entropy(logits.float(), labels, ignore_index=-100)
