import torch


class PackedTrainer:
    def split_step(self, batch, steps):
        cu_seqlens = batch["cu_seqlens"]
        docs = cu_seqlens.numel() - 1
        per_step = -(-docs // steps)
        for first in range(0, docs, per_step):
            bounds = cu_seqlens[first : first + per_step + 1]
            begin, end = int(bounds[0]), int(bounds[-1])
            yield {
                "input_ids": batch["input_ids"][:, begin:end],
                "labels": batch["labels"][:, begin:end],
                "position_ids": batch["position_ids"][:, begin:end],
                "cu_seqlens": bounds - begin,
                "max_seqlen": int(torch.diff(bounds).max()),
            }
