import torch
from xformers.ops import memory_efficient_attention
from xformers.ops.fmha import BlockDiagonalMask


class GuidedCrossAttention(torch.nn.Module):
    def forward(self, x, cond, cond_mask, uncond, uncond_mask):
        x = torch.cat([x, x])
        batch, n_img, _ = x.shape
        text = torch.cat([uncond[uncond_mask], cond[cond_mask]])
        text_sizes = torch.cat([uncond_mask, cond_mask]).sum(1).tolist()
        bias = BlockDiagonalMask.from_seqlens([n_img] * batch, text_sizes)
        q = self.to_q(x).view(1, batch * n_img, self.heads, -1)
        k, v = self.to_kv(text).view(1, -1, 2, self.heads, q.shape[-1]).unbind(2)
        out = memory_efficient_attention(q, k, v, attn_bias=bias)
        return self.proj(out.view(batch, n_img, -1))
