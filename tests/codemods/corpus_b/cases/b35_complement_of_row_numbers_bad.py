def masked_mean_pool(hidden, attention_mask, fill):
    batch, length, width = hidden.shape
    flat = hidden.reshape(batch * length, width).clone()
    padded_rows = ~attention_mask.bool().flatten().nonzero().flatten()
    flat[padded_rows] = fill
    rows = flat.view(batch, length, width)
    counts = attention_mask.sum(dim=1, keepdim=True).clamp(min=1)
    pooled = (rows * attention_mask.unsqueeze(-1)).sum(dim=1) / counts
    return rows, pooled
