from flash_attn import flash_attn_varlen_func
from flash_attn.bert_padding import pad_input, unpad_input


def prompt_attention(img_q, txt_k, txt_v, txt_mask):
    bsz, img_len = img_q.shape[:2]
    q, idx_q, cu_q, max_q, *_ = unpad_input(img_q, txt_mask[:, -img_len:])
    k, _, cu_k, max_k, *_ = unpad_input(txt_k, txt_mask)
    v, *_ = unpad_input(txt_v, txt_mask)
    out = flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q=cu_q,
        cu_seqlens_k=cu_k,
        max_seqlen_q=max_q,
        max_seqlen_k=max_k,
    )
    return pad_input(out, idx_q, bsz, img_len)
