import torch
import torch_npu


class VisionAscendAttention(torch.nn.Module):
    def __init__(self, num_heads, num_kv_heads, scale):
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.scale = scale

    def forward(self, q, k, v, forward_metadata):
        lengths = forward_metadata.cu_seqlens[1:].to("cpu").tolist()
        out, _ = torch_npu.npu_fused_infer_attention_score(
            q,
            k,
            v,
            num_heads=self.num_heads,
            num_key_value_heads=self.num_kv_heads,
            input_layout="TND",
            scale=self.scale,
            actual_seq_lengths=lengths,
            actual_seq_lengths_kv=lengths,
        )
        return out
