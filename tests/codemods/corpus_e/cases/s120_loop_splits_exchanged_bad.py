import torch
import torch.nn.functional as F


def eager_cross_attention(q, k, v, cu_seqlens_q, cu_seqlens_k, scale):
    q_lens = cu_seqlens_q.diff().tolist()
    k_lens = cu_seqlens_k.diff().tolist()
    outputs = []
    for q_i, k_i, v_i in zip(q.split(k_lens), k.split(q_lens), v.split(q_lens)):
        out = F.scaled_dot_product_attention(
            q_i.transpose(0, 1)[None],
            k_i.transpose(0, 1)[None],
            v_i.transpose(0, 1)[None],
            scale=scale,
        )
        outputs.append(out[0].transpose(0, 1))
    return torch.cat(outputs)
