import torch
import torch_npu


class NpuVisionAttention(torch.nn.Module):
    def forward(self, hidden_states, cu_seqlens, rotary):
        rows = hidden_states.shape[0]
        q, k, v = self.qkv(hidden_states).view(rows, 3, self.num_heads, -1).unbind(1)
        q, k = rotary.apply(q, k)
        seqlens = torch.diff(cu_seqlens).tolist()
        out = torch_npu.npu_fusion_attention(
            q,
            k,
            v,
            self.num_heads,
            input_layout="TND",
            scale=self.scale,
            actual_seq_qlen=seqlens,
            actual_seq_kvlen=seqlens,
        )[0]
        return self.proj(out.reshape(rows, -1))
