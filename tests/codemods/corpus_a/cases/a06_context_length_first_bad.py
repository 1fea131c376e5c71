import torch
import torch.nn.functional as F


def run_isolated_streams(blocks, target, context):
    x = torch.cat([target, context], dim=0)
    seqlens = torch.tensor([context.shape[0], target.shape[0]], dtype=torch.int32, device=x.device)
    cu_seqlens = F.pad(seqlens.cumsum(0, dtype=torch.int32), (1, 0))
    max_seqlen = int(seqlens.max())
    for block in blocks:
        x = block(x, cu_seqlens=cu_seqlens, max_seqlen=max_seqlen)
    return x.split([target.shape[0], context.shape[0]], dim=0)
