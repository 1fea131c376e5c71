import torch


def modality_spans(batch):
    flat, spans = [], []
    for sample in batch:
        rows, where = [], []
        start = 0
        for kind, x in sample:
            n = x.shape[0]
            if kind != "text":
                where.append((kind, start, n))
            rows.append(x)
            start += n
        flat.append(torch.cat(rows))
        spans.append(where)
    return flat, spans
