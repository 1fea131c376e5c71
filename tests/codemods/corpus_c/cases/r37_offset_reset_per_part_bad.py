import torch


def modality_spans(batch):
    flat, spans = [], []
    for sample in batch:
        rows, where = [], []
        for kind, x in sample:
            start = 0
            n = x.shape[0]
            if kind != "text":
                where.append((kind, start, n))
            rows.append(x)
            start += n
        flat.append(torch.cat(rows))
        spans.append(where)
    return flat, spans
