import torch


def encode_longest_first(encoder, documents):
    lens = torch.tensor([d.shape[0] for d in documents])
    order = lens.argsort(descending=True)
    cu_seqlens = torch.nn.functional.pad(lens[order].cumsum(0, dtype=torch.int32), (1, 0))
    rows = torch.cat([documents[i] for i in order.tolist()])
    pooled = encoder(rows, cu_seqlens=cu_seqlens, max_seqlen=int(lens.max()))
    out = torch.empty_like(pooled)
    out[order] = pooled
    return out
