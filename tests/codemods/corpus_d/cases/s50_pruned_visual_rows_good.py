import torch


class PruningEncoder(torch.nn.Module):
    def forward(self, x, cu_seqlens, max_seqlen):
        for i, block in enumerate(self.blocks):
            if i == self.prune_at:
                keep = self.scorer(x).squeeze(-1) > self.threshold
                kept = torch.nn.functional.pad(keep.cumsum(0, dtype=torch.int32), (1, 0))
                cu_seqlens = kept[cu_seqlens.long()]
                max_seqlen = int(cu_seqlens.diff().max())
                x = x[keep]
            x = block(x, cu_seqlens=cu_seqlens, max_seqlen=max_seqlen)
        return self.norm(x), cu_seqlens
