import torch
import torch.nn.functional as F
from flash_attn.bert_padding import pad_input, unpad_input


def token_losses_rmpad(model, input_ids, attention_mask):
    batch, seqlen = input_ids.shape
    ids_rmpad, indices, cu_seqlens, max_seqlen, *_ = unpad_input(input_ids.unsqueeze(-1), attention_mask)
    ids_rmpad = ids_rmpad.squeeze(-1)
    logits = model(ids_rmpad.unsqueeze(0), cu_seqlens=cu_seqlens, max_seqlen=max_seqlen).squeeze(0)
    labels = torch.roll(ids_rmpad, shifts=-1, dims=0)
    labels[cu_seqlens[1:].long() - 1] = -100
    losses = F.cross_entropy(logits.float(), labels, ignore_index=-100, reduction="none")
    return pad_input(losses.unsqueeze(-1), indices, batch, seqlen).squeeze(-1)
