import torch
import torch.nn.functional as F


class AudioTower(torch.nn.Module):
    def __init__(self, mels, dim):
        super().__init__()
        self.conv = torch.nn.Conv1d(mels, dim, kernel_size=3, stride=2, padding=1)

    def forward(self, clips):
        frames = torch.tensor([c.shape[1] for c in clips])
        padded = torch.stack([F.pad(c, (0, int(frames.max()) - c.shape[1])) for c in clips])
        h = F.gelu(self.conv(padded)).transpose(1, 2)
        frames = (frames - 1) // 2 + 1
        keep = torch.arange(h.shape[1])[None] < frames[:, None]
        cu_seqlens = F.pad(frames.cumsum(0, dtype=torch.int32), (1, 0))
        return h[keep], cu_seqlens, int(frames.max())
