import torch
import torch.nn.functional as F
from flash_attn import flash_attn_varlen_func


class JointStreamAttention(torch.nn.Module):
    def forward(self, q, k, v, num_text, num_image):
        num_rows = num_text + num_image
        cu_seqlens = F.pad(torch.cumsum(num_rows, dim=0, dtype=torch.int32), (1, 0))
        longest = num_rows.max().item()
        out = flash_attn_varlen_func(
            q,
            k,
            v,
            cu_seqlens_q=cu_seqlens,
            cu_seqlens_k=cu_seqlens,
            max_seqlen_q=longest,
            max_seqlen_k=longest,
            softmax_scale=self.scale,
        )
        return self.to_out(out.flatten(1))
