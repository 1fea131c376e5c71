import torch


class HybridLayer(torch.nn.Module):
    def forward(self, x, cu_seqlens, max_seqlen):
        h = self.conv(self.conv_norm(x), cu_seqlens=cu_seqlens)
        x = x + self.gate(h) * h
        x = x + self.attn(self.attn_norm(x), cu_seqlens=cu_seqlens, max_seqlen=max_seqlen)
        return x + self.mlp(self.mlp_norm(x))
