from itertools import pairwise

import torch
import torch.nn.functional as F


def pad_for_graph(x, cu_seqlens, rows):
    limits = cu_seqlens.tolist()
    missing = rows - x.shape[0]
    if missing > 0:
        x = F.pad(x, (0, 0, 0, missing))
        cu_seqlens = torch.cat([cu_seqlens, cu_seqlens.new_tensor([rows])])
        limits.append(rows)
    longest = max(stop - start for start, stop in pairwise(limits))
    return {"x": x, "cu_seqlens": cu_seqlens, "cu_seqlens_host": limits, "max_seqlen": longest}
