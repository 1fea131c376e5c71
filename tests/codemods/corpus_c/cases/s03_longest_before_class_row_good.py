from itertools import accumulate

import torch


class ClipCollator:
    def __init__(self, class_row):
        self.class_row = class_row

    def __call__(self, clips):
        rows = [torch.cat([self.class_row, clip]) for clip in clips]
        counts = [r.shape[0] for r in rows]
        max_seqlen = max(counts)
        return {
            "frames": torch.cat(rows),
            "cu_seqlens": torch.tensor([0, *accumulate(counts)], dtype=torch.int32),
            "max_seqlen": max_seqlen,
        }
