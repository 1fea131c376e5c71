import torch.nn.functional as F

from .metadata import DraftMetadata


class DraftMetadataBuilder:
    def build(self, common, graph_tokens):
        query_ends = common.query_start_loc_cpu[1:].tolist()
        kv_lens = common.seq_lens_cpu.tolist()
        table = common.block_table
        if graph_tokens > query_ends[-1]:
            query_ends.append(graph_tokens)
            table = F.pad(table, (0, 0, 0, 1))
        return DraftMetadata(
            actual_seq_lengths_q=query_ends,
            actual_seq_lengths_kv=kv_lens,
            block_table=table,
        )
