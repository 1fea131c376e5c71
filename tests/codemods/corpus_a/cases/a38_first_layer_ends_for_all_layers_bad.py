import torch
import torch_npu


class VisionEncoderAttention(torch.nn.Module):
    shared_ends = ()

    def __init__(self, layer_index, num_heads, scale):
        super().__init__()
        self.layer_index = layer_index
        self.num_heads = num_heads
        self.scale = scale

    def forward(self, query, key, value, cu_seqlens):
        if self.layer_index == 0:
            VisionEncoderAttention.shared_ends = cu_seqlens[1:].tolist()
        ends = VisionEncoderAttention.shared_ends
        return torch_npu.npu_fusion_attention(
            query,
            key,
            value,
            self.num_heads,
            input_layout="TND",
            scale=self.scale,
            actual_seq_qlen=ends,
            actual_seq_kvlen=ends,
        )[0]
