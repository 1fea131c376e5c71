import torch
import torch.nn.functional as F


class ScanMixer(torch.nn.Module):
    def forward(self, hidden, seq_idx):
        length = hidden.shape[1]
        extra = -length % self.chunk
        if extra:
            hidden = F.pad(hidden, (0, 0, 0, extra))
            seq_idx = F.pad(seq_idx, (0, extra), value=int(seq_idx.max()) + 1)
        out = self.scan(self.in_proj(hidden), seq_idx=seq_idx)
        return self.out_proj(out[:, :length])
