import torch
import torch.nn.functional as F

IGNORE_INDEX = -100


class PackBuilder:
    def __init__(self, max_seq_len, pad_id):
        self.max_seq_len = max_seq_len
        self.pad_id = pad_id

    def build(self, samples):
        tokens = torch.cat([s["tokens"] for s in samples])
        labels = torch.cat([s["labels"] for s in samples])
        input_pos = torch.cat([torch.arange(s["tokens"].numel()) for s in samples])
        labels = torch.cat([labels[1:], labels.new_full((1,), IGNORE_INDEX)])
        room = self.max_seq_len - tokens.numel()
        return {
            "tokens": F.pad(tokens, (0, room), value=self.pad_id),
            "labels": F.pad(labels, (0, room), value=IGNORE_INDEX),
            "input_pos": torch.cat([input_pos, torch.arange(room)]),
            "seq_lens": [s["tokens"].numel() for s in samples] + [room] * (room > 0),
        }
