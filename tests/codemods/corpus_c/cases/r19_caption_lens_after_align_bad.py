import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence


class CaptionRefiner(torch.nn.Module):
    ALIGN = 32

    def forward(self, captions):
        captions = [F.pad(c, (0, 0, 0, -c.shape[0] % self.ALIGN)) for c in captions]
        used = [c.shape[0] for c in captions]
        h = pad_sequence(captions, batch_first=True)
        valid = torch.zeros(h.shape[:2], dtype=torch.bool, device=h.device)
        for row, n in enumerate(used):
            valid[row, :n] = True
        for layer in self.layers:
            h = layer(h, attention_mask=valid)
        return h
