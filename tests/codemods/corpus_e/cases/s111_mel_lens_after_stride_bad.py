import torch
import torch.nn.functional as F


class SpeechEncoder(torch.nn.Module):
    def __init__(self, n_mels, dim):
        super().__init__()
        self.conv = torch.nn.Conv1d(n_mels, dim, kernel_size=3, stride=2, padding=1)
        self.layers = torch.nn.ModuleList()

    def forward(self, mels):
        frames = torch.tensor([m.shape[1] for m in mels])
        x = torch.cat([F.gelu(self.conv(m)).T for m in mels])
        cu_seqlens = F.pad(frames.cumsum(0, dtype=torch.int32), (1, 0)).to(x.device)
        longest = int(frames.max())
        for layer in self.layers:
            x = layer(x, cu_seqlens=cu_seqlens, max_seqlen=longest)
        return x, cu_seqlens
