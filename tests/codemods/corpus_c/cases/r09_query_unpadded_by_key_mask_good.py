import torch
from flash_attn import flash_attn_varlen_func
from flash_attn.bert_padding import unpad_input


def prompt_attention(img_q, txt_k, txt_v, txt_mask):
    bsz, img_len = img_q.shape[:2]
    k, _, cu_k, max_k, *_ = unpad_input(txt_k, txt_mask)
    v, *_ = unpad_input(txt_v, txt_mask)
    cu_q = torch.arange(0, (bsz + 1) * img_len, img_len, dtype=torch.int32, device=img_q.device)
    out = flash_attn_varlen_func(
        img_q.flatten(0, 1),
        k,
        v,
        cu_seqlens_q=cu_q,
        cu_seqlens_k=cu_k,
        max_seqlen_q=img_len,
        max_seqlen_k=max_k,
    )
    return out.unflatten(0, (bsz, img_len))
