import torch.nn.functional as F


def scatter_inputs(batch, tp_size):
    pad = -batch.input_ids.shape[0] % tp_size
    if pad:
        batch.input_ids = F.pad(batch.input_ids, (0, pad))
        batch.positions = F.pad(batch.positions, (0, pad))
        batch.out_cache_loc = F.pad(batch.out_cache_loc, (0, pad))
        batch.extend_lens = F.pad(batch.extend_lens, (0, 1), value=pad)
        batch.seq_lens = F.pad(batch.seq_lens, (0, 1), value=pad)
    batch.qo_indptr = F.pad(batch.extend_lens.cumsum(0), (1, 0)).int()
    batch.kv_indptr = F.pad(batch.seq_lens.cumsum(0), (1, 0)).int()
    return batch
