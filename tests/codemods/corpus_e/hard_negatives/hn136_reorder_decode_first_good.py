import torch


def decode_first(tokens_per_req, query_lens, seq_lens, block_table):
    is_prefill = (query_lens > 1).int()
    order = torch.argsort(is_prefill, stable=True)
    query_lens = query_lens[order]
    seq_lens = seq_lens[order]
    block_table = block_table[order]
    tokens = torch.cat([tokens_per_req[i] for i in order.tolist()])
    num_decodes = int((query_lens == 1).sum())
    starts = torch.nn.functional.pad(query_lens.cumsum(0, dtype=torch.int32), (1, 0))
    prefill_starts = starts[num_decodes:] - starts[num_decodes]
    return tokens, starts, prefill_starts, seq_lens, block_table, num_decodes
