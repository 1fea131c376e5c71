import torch
import torch.nn.functional as F


class ReferencePacker:
    def __init__(self, patch, max_side):
        self.patch = patch
        self.max_side = max_side

    def patches(self, image):
        scale = min(1.0, self.max_side / max(image.shape[-2:]))
        step = self.patch
        size = [max(step, int(side * scale) // step * step) for side in image.shape[-2:]]
        image = F.interpolate(image[None], size=size, mode="bilinear")[0]
        rows = F.unfold(image[None], step, stride=step)[0].T
        return rows, (size[0] // step, size[1] // step)

    def pack(self, images):
        parts = [self.patches(image) for image in images]
        grids = [grid for _, grid in parts]
        sizes = torch.tensor([h * w for h, w in grids])
        tags = torch.repeat_interleave(torch.arange(len(grids)), sizes)
        return torch.cat([rows for rows, _ in parts]), tags, grids
