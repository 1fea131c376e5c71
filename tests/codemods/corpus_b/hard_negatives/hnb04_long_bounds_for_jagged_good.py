import torch
from fla.ops.gla import chunk_gla


def gated_rows(q, k, v, g, lens):
    offsets = torch.nn.functional.pad(lens.long().cumsum(0), (1, 0))
    out, _ = chunk_gla(q=q, k=k, v=v, g=g, cu_seqlens=offsets)
    return torch.nested.nested_tensor_from_jagged(out.squeeze(0), offsets)
