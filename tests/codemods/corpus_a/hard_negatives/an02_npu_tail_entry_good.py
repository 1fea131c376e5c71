import torch
import torch.nn.functional as F
import torch_npu


class GraphPrefill(torch.nn.Module):
    def forward(self, query, key, value, query_lens, graph_tokens):
        ends = query_lens.cumsum(0).tolist()
        rows = query.shape[0]
        missing = graph_tokens - rows
        if missing > 0:
            query, key, value = (F.pad(t, (0, 0, 0, 0, 0, missing)) for t in (query, key, value))
            ends.append(graph_tokens)
        out = torch_npu.npu_fusion_attention(
            query,
            key,
            value,
            self.num_heads,
            input_layout="TND",
            scale=self.scale,
            actual_seq_qlen=ends,
            actual_seq_kvlen=ends,
        )[0]
        return out[:rows]
