import torch.nn.functional as F

from .distributed import get_sp_group


class VideoDiT:
    def shard_inputs(self, latents, cos, sin):
        group = get_sp_group()
        extra = -latents.size(1) % group.world_size
        if extra > 0:
            latents = F.pad(latents, (0, 0, 0, extra))
            cos = F.pad(cos, (0, 0, 0, extra))
            sin = F.pad(sin, (0, 0, 0, extra))
        latents = latents.chunk(group.world_size, dim=1)[group.rank]
        cos = cos.chunk(group.world_size, dim=0)[group.rank]
        sin = sin.chunk(group.world_size, dim=0)[group.rank]
        return latents, (cos, sin), extra
