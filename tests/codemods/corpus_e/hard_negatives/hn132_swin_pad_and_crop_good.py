import torch
import torch.nn.functional as F


class WindowBlock(torch.nn.Module):
    def forward(self, x):
        batch, height, width, dim = x.shape
        size = self.window
        bottom, right = -height % size, -width % size
        x = F.pad(x, (0, 0, 0, right, 0, bottom))
        rows, cols = (height + bottom) // size, (width + right) // size
        x = x.view(batch, rows, size, cols, size, dim).transpose(2, 3).reshape(-1, size * size, dim)
        x = self.attn(x)
        x = x.view(batch, rows, cols, size, size, dim).transpose(2, 3)
        x = x.reshape(batch, rows * size, cols * size, dim)
        return x[:, :height, :width]
