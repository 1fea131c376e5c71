from einops import rearrange
from flash_attn.bert_padding import index_first_axis, unpad_input


def remove_padding(batch):
    mask = batch["attention_mask"]
    ids, rows, cu_seqlens, max_seqlen, *_ = unpad_input(batch["input_ids"].unsqueeze(-1), mask)
    positions = index_first_axis(rearrange(batch["position_ids"], "b s -> (b s) 1"), rows)
    old = index_first_axis(rearrange(batch["old_log_probs"], "b s -> (b s) 1"), rows)
    advantages = index_first_axis(rearrange(batch["advantages"], "b s -> (b s) 1"), rows)
    return {
        "input_ids": ids.transpose(0, 1),
        "position_ids": positions.transpose(0, 1),
        "old_log_probs": old.transpose(0, 1),
        "advantages": advantages.transpose(0, 1),
        "cu_seqlens": cu_seqlens,
        "max_seqlen": max_seqlen,
    }
