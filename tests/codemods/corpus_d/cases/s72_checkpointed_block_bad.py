import torch
from torch.utils.checkpoint import checkpoint


class SiglipPackedEncoder(torch.nn.Module):
    def forward(self, patches, cu_seqlens, position_embeddings):
        hidden = self.embeddings(patches)
        for block in self.blocks:
            if self.training and self.use_checkpoint:
                hidden = checkpoint(block, hidden, position_embeddings=position_embeddings, use_reentrant=False)
            else:
                hidden = block(hidden, cu_seqlens=cu_seqlens, position_embeddings=position_embeddings)
        return self.post_layernorm(hidden)
