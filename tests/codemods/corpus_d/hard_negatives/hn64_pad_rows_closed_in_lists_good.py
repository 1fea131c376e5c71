import torch
import torch_npu


def replay_attention(q, k, v, ends, kv_lens, block_table, heads, scale, graph_rows):
    rows = q.shape[0]
    if rows < graph_rows:
        q = torch.nn.functional.pad(q, (0, 0, 0, 0, 0, graph_rows - rows))
        ends = [*ends, graph_rows]
        kv_lens = [*kv_lens, graph_rows - rows]
        block_table = torch.nn.functional.pad(block_table, (0, 0, 0, 1))
    out = torch_npu.npu_fused_infer_attention_score(
        q,
        k,
        v,
        num_heads=heads,
        input_layout="TND",
        scale=scale,
        actual_seq_lengths=ends,
        actual_seq_lengths_kv=kv_lens,
        block_table=block_table,
    )[0]
    return out[:rows]
