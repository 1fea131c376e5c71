import torch
import torch.nn.functional as F
import torch_npu


def vision_attention(q, k, v, cu_seqlens, multiple, scale):
    rows = q.shape[0]
    pad = -rows % multiple
    if pad:
        q, k, v = (F.pad(x, (0, 0, 0, 0, 0, pad)) for x in (q, k, v))
        cu_seqlens = torch.cat([cu_seqlens, cu_seqlens[-1:] + pad])
    ends = cu_seqlens[1:].tolist()
    out = torch_npu.npu_fusion_attention(
        q,
        k,
        v,
        head_num=q.shape[1],
        input_layout="TND",
        scale=scale,
        actual_seq_qlen=ends,
        actual_seq_kvlen=ends,
    )[0]
    return out[:rows]
