import torch
import torch.nn.functional as F


class LocalWindowAttention(torch.nn.Module):
    def forward(self, feature_map):
        height, width, dim = feature_map.shape
        ws = self.window_size
        x = F.pad(feature_map, (0, 0, 0, -width % ws, 0, -height % ws))
        rows, cols = height // ws, width // ws
        tokens = x.unfold(0, ws, ws).unfold(1, ws, ws).permute(0, 1, 3, 4, 2).reshape(-1, dim)
        cu_seqlens = torch.arange(rows * cols + 1, dtype=torch.int32, device=x.device) * (ws * ws)
        out = self.attn(tokens, cu_seqlens=cu_seqlens, max_seqlen=ws * ws)
        return out, (rows, cols)
