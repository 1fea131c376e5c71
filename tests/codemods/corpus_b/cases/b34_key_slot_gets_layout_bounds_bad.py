import torch


def bounds_of(lens):
    return torch.nn.functional.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))


def cross_thd(attention, q, k, v, q_lens, kv_lens, align):
    cu_q, cu_kv = bounds_of(q_lens), bounds_of(kv_lens)
    q_padded = bounds_of((q_lens + align - 1) // align * align)
    kv_padded = bounds_of((kv_lens + align - 1) // align * align)
    return attention(
        q,
        k,
        v,
        qkv_format="thd",
        attn_mask_type="padding",
        cu_seqlens_q=cu_q,
        cu_seqlens_kv=kv_padded,
        cu_seqlens_q_padded=q_padded,
        cu_seqlens_kv_padded=kv_padded,
        max_seqlen_q=int(q_lens.max()),
        max_seqlen_kv=int(kv_lens.max()),
        pad_between_seqs=True,
    )
