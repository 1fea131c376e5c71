import transformer_engine_torch as tex

BOUNDS = ("cu_seqlens", "cu_seqlens_padded", "max_seqlen")


def thd_shard(batch, cp_size, cp_rank):
    padded = batch["cu_seqlens_padded"]
    index = tex.thd_get_partitioned_indices(padded, batch["tokens"].shape[1], cp_size, cp_rank)
    local = {name: value.index_select(1, index) for name, value in batch.items() if name not in BOUNDS}
    local.update({name: batch[name] for name in BOUNDS})
    return local
