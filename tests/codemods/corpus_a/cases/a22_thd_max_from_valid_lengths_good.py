import torch.nn.functional as F
from megatron.core.packed_seq_params import PackedSeqParams


def to_thd(input_ids, attention_mask, align):
    seqlens = attention_mask.sum(dim=-1).int()
    padded = (seqlens + align - 1) // align * align
    cu_padded = F.pad(padded.cumsum(0), (1, 0)).int()
    packed = input_ids.new_zeros(int(cu_padded[-1]))
    for row, (start, n) in enumerate(zip(cu_padded[:-1].tolist(), seqlens.tolist(), strict=True)):
        packed[start : start + n] = input_ids[row, attention_mask[row].bool()]
    longest = int(padded.max())
    params = PackedSeqParams(
        qkv_format="thd",
        cu_seqlens_q=cu_padded,
        cu_seqlens_kv=cu_padded,
        cu_seqlens_q_padded=cu_padded,
        cu_seqlens_kv_padded=cu_padded,
        max_seqlen_q=longest,
        max_seqlen_kv=longest,
    )
    return packed.unsqueeze(0), params
