from flash_attn import flash_attn_varlen_func
from flash_attn.bert_padding import index_first_axis, pad_input
from transformers.modeling_flash_attention_utils import _get_unpad_data


def masked_self_attention(q, k, v, attention_mask, causal):
    batch, length = q.shape[:2]
    indices, longest, cu_seqlens = _get_unpad_data(attention_mask)
    q, k, v = (index_first_axis(t.flatten(0, 1), indices) for t in (q, k, v))
    out = flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q=cu_seqlens,
        cu_seqlens_k=cu_seqlens,
        max_seqlen_q=longest,
        max_seqlen_k=longest,
        causal=causal,
    )
    return pad_input(out, indices, batch, length)
