import torch.nn.functional as F
from torch import int32, nn
from torch.nn.attention.varlen import varlen_attn


class TextConditioner(nn.Module):
    def forward(self, image, caption, image_lens, caption_lens):
        q = self.to_q(image).unflatten(-1, (self.heads, -1))
        k, v = self.to_kv(caption).unflatten(-1, (2, self.heads, -1)).unbind(1)
        image_offsets = F.pad(image_lens.cumsum(0, dtype=int32), (1, 0))
        caption_offsets = F.pad(caption_lens.cumsum(0, dtype=int32), (1, 0))
        longest_image, longest_caption = int(image_lens.max()), int(caption_lens.max())
        out = varlen_attn(q, k, v, caption_offsets, image_offsets, longest_image, longest_caption)
        return self.to_out(out.flatten(-2))
