import torch
import torch.nn.functional as F
import torch_npu


class NpuPackedAttention(torch.nn.Module):
    def forward(self, query, key, value, seq_lens):
        cu_seqlens = F.pad(seq_lens.cumsum(0), (1, 0))
        bounds = cu_seqlens[1:].tolist()
        return torch_npu.npu_fusion_attention(
            query,
            key,
            value,
            self.num_heads,
            input_layout="TND",
            atten_mask=self.causal_mask,
            scale=self.head_dim**-0.5,
            sparse_mode=3,
            actual_seq_qlen=bounds,
            actual_seq_kvlen=bounds,
        )[0]
