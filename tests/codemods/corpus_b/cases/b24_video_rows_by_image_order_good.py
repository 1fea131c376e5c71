import torch
from torch import nn


class DualTower(nn.Module):
    def forward(self, image_rows, video_rows, image_grid, video_grid):
        image_order, image_bounds = self.windows(image_grid)
        video_order, video_bounds = self.windows(video_grid)
        image = self.encoder(image_rows[image_order], cu_seqlens=image_bounds)
        video = self.encoder(video_rows[video_order], cu_seqlens=video_bounds)
        back = torch.argsort(image_order)
        image = self.merger(image[back])
        video = self.merger(video[torch.argsort(video_order)])
        return image, video
